#include "balance/json_path.h"

#include "schedule/printable.h"

namespace pipescope {
namespace {
constexpr std::size_t kMostNesting = 64;

/// Removes the bracket of "[json.exception.parse_error.101] parse error at ..".
std::string plain(std::string_view what) {
    const std::size_t end = what.find("] ");
    return std::string(what.substr(end == std::string_view::npos ? 0 : end + 2));
}
}  // namespace

bool JsonPathTracker::operator()(int, Json::parse_event_t event, const Json& parsed) {
    switch (event) {
        case Json::parse_event_t::object_start:
        case Json::parse_event_t::array_start:
            if (frames_.size() >= kMostNesting) {
                throw ProfileError(path() + " nests deeper than " + std::to_string(kMostNesting) +
                                   " levels; a profile needs 5; remove the field");
            }
            frames_.push_back({.is_array = event == Json::parse_event_t::array_start});
            break;
        case Json::parse_event_t::key:
            frames_.back().key = parsed.get<std::string>();
            if (!frames_.back().seen.insert(frames_.back().key).second) {
                throw ProfileError(path() + " appears twice; an object holds each key once; remove one");
            }
            break;
        case Json::parse_event_t::value: close_value(); break;
        case Json::parse_event_t::object_end:
        case Json::parse_event_t::array_end:
            frames_.pop_back();
            close_value();
            break;
    }
    return true;
}

void JsonPathTracker::close_value() {
    if (!frames_.empty() && frames_.back().is_array) {
        ++frames_.back().index;
    }
}

std::string JsonPathTracker::path() const {
    std::string path;
    for (const Frame& frame : frames_) {
        if (frame.is_array) {
            path += "[" + std::to_string(frame.index) + "]";
        } else if (!frame.key.empty()) {
            path += (path.empty() ? "" : ".") + printable(frame.key);
        }
    }
    return path.empty() ? "$" : path;
}

Json parse_json_with_path(std::string_view text, std::string_view file, std::string_view remedy) {
    JsonPathTracker tracker;
    try {
        return Json::parse(text, [&tracker](int depth, Json::parse_event_t event, const Json& parsed) {
            return tracker(depth, event, parsed);
        });
    } catch (const Json::out_of_range& fault) {
        throw ProfileError(tracker.path() + " is no usable number (" + plain(fault.what()) +
                           "); times are ns and sizes bytes, at most 2^53; " + std::string(remedy));
    } catch (const Json::exception& fault) {
        throw ProfileError(tracker.path() + " is not valid JSON (" + plain(fault.what()) + "); " + std::string(file) +
                           " is one JSON object; " + std::string(remedy));
    }
}

std::string dumped(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void wrong_type(const std::string& path, const Json& value, const std::string& wanted) {
    std::string shown = dumped(value);
    if (shown.size() > 40) {
        shown = shown.substr(0, 40) + "..";
    }
    throw ProfileError(path + " is " + shown + "; it must be " + wanted + "; correct it, or profile again");
}
}  // namespace pipescope
