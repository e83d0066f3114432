#include "profiler/profile/json_path.h"

#include "base/known_keys.h"
#include "base/printable.h"

#include <algorithm>
#include <optional>

namespace pipescope {
namespace {
constexpr std::size_t kMostNesting = 64;

/// "is not valid JSON in line 2, column 9, at 'NaN]'". `byte` is the parser's position behind the fault, from 1.
std::string syntax_fault(std::string_view text, std::size_t byte) {
    constexpr std::size_t kShown = 12;
    const std::size_t at = std::min(byte > 0 ? byte - 1 : 0, text.size());
    const std::string_view before = text.substr(0, at);
    const std::size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::string_view rest = text.substr(at, text.substr(at).find('\n'));
    return "is not valid JSON in line " + std::to_string(line) + ", column " + std::to_string(at - line_start + 1) +
           (rest.empty() ? ", where it ends" : ", at '" + printable(rest.substr(0, kShown)) + "'");
}

/// The number that the library could not represent: it quotes it in its message.
std::string unrepresentable_number(std::string_view what) {
    const std::size_t quote = what.find('\'');
    const std::string_view rest = quote == std::string_view::npos ? what : what.substr(quote + 1);
    return printable(rest.substr(0, rest.find('\'')));
}
}  // namespace

bool JsonPathTracker::operator()(int, Json::parse_event_t event, const Json& parsed) {
    switch (event) {
        case Json::parse_event_t::object_start:
        case Json::parse_event_t::array_start:
            if (frames_.size() >= kMostNesting) {
                throw ProfileError(path() + " nests deeper than " + std::to_string(kMostNesting) +
                                   " levels; no such file needs that many; remove the field");
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
        throw ProfileError(tracker.path() + " is " + unrepresentable_number(fault.what()) +
                           ", which is too large; a number is below 1.8e308; " + std::string(remedy));
    } catch (const Json::parse_error& fault) {
        throw ProfileError(tracker.path() + " " + syntax_fault(text, fault.byte) + "; " + std::string(file) +
                           " is one JSON object; " + std::string(remedy));
    }
}

std::string dumped(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void refuse_unknown_keys(const Json& object, const std::string& path, const std::vector<std::string>& known,
                         const std::string& file) {
    if (const std::optional<UnknownKey> unknown = unknown_key_of(object, known)) {
        throw ProfileError(path + (path.empty() ? "" : ".") + printable(unknown->key) + " is unknown; " +
                           unknown->instead + "; correct the " + file);
    }
}

void wrong_type(const std::string& path, const Json& value, const std::string& wanted, const std::string& remedy) {
    throw ProfileError(path + " is " + shortened(dumped(value), 40) + "; it must be " + wanted + "; " + remedy);
}
}  // namespace pipescope
