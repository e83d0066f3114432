#include "base/json_reader.h"

#include "base/printable.h"

#include <algorithm>

namespace pipescope {
std::string path_of_key(const std::string& path, std::string_view key) {
    return path + (path.empty() ? "" : ".") + printable(key);
}

std::string dumped(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shortened_json(const std::string& text) {
    constexpr std::size_t kLongest = 60;
    return shortened(printable(text), kLongest);
}

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

std::string unrepresentable_number(std::string_view what) {
    const std::size_t quote = what.find('\'');
    const std::string_view rest = quote == std::string_view::npos ? what : what.substr(quote + 1);
    return printable(rest.substr(0, rest.find('\'')));
}

void JsonPath::open(bool is_array) {
    if (frames_.size() >= kind_.deepest) {
        kind_.fail(path() + " nests deeper than " + std::to_string(kind_.deepest) +
                   " levels; no such file needs that many; remove the field");
    }
    frames_.push_back({.is_array = is_array});
}

void JsonPath::key(const std::string& name) {
    frames_.back().key = name;
    if (!frames_.back().seen.insert(name).second) {
        kind_.fail(path() + " appears twice; an object holds each key once; remove one");
    }
}

void JsonPath::close() {
    frames_.pop_back();
    close_value();
}

void JsonPath::close_value() {
    if (!frames_.empty() && frames_.back().is_array) {
        ++frames_.back().index;
    }
}

std::string JsonPath::path() const {
    constexpr std::size_t kMostShown = 8;  // levels; of more, the first and the last half
    std::string path;
    for (std::size_t level = 0; level < frames_.size(); ++level) {
        const Frame& frame = frames_[level];
        const bool is_left_out =
            frames_.size() > kMostShown && level >= kMostShown / 2 && level < frames_.size() - kMostShown / 2;
        if (is_left_out) {
            path += level == kMostShown / 2 ? ".." : "";
        } else if (frame.is_array) {
            path += "[" + std::to_string(frame.index) + "]";
        } else if (!frame.key.empty()) {
            path = path_of_key(path, frame.key);
        }
    }
    return path.empty() ? "$" : path;
}
}  // namespace pipescope
