#include "save/strict_json.h"

#include "base/library_message.h"
#include "base/printable.h"
#include "save/save_error.h"

#include <set>
#include <vector>

namespace pipescope {
namespace {
using nlohmann::json;

constexpr int kDeepest = 4;  // a tensor's shape, in its entry, in the header
constexpr std::size_t kLongestShown = 80;
}  // namespace

json parse_strict_json(std::string_view text) {
    if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {  // the parser would end there
        throw SaveError("it is no JSON: its byte " + std::to_string(zero + 1) + " is 0");
    }
    std::vector<std::set<std::string>> keys;  // of each open object
    const auto check = [&keys](int depth, json::parse_event_t event, const json& parsed) {
        if (depth > kDeepest) {
            throw SaveError("its JSON is nested deeper than " + std::to_string(kDeepest) + " levels");
        }
        if (event == json::parse_event_t::object_start) {
            keys.emplace_back();
        } else if (event == json::parse_event_t::object_end) {
            keys.pop_back();
        } else if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
            throw SaveError("the key " + shown(parsed) + " appears twice; each may appear once");
        }
        return true;
    };
    try {
        return json::parse(text, check);
    } catch (const json::exception& error) {
        throw SaveError("it is no JSON (" + printable(without_error_number(error.what())) + ")");
    }
}

const json& member(const json& object, const std::string& key) {
    if (!object.is_object()) {
        throw SaveError(shown(object) + " stands where an object must be");
    }
    const auto found = object.find(key);
    if (found == object.end()) {
        throw SaveError("there is no " + shown(key) + " in " + shown(object));
    }
    return *found;
}

std::uint64_t unsigned_member(const json& object, const std::string& key) {
    const json& value = member(object, key);
    if (!value.is_number_unsigned()) {
        throw SaveError(shown(key) + " is " + shown(value) + "; it must be a whole number from 0");
    }
    return value.get<std::uint64_t>();
}

std::string text_member(const json& object, const std::string& key) {
    const json& value = member(object, key);
    if (!value.is_string()) {
        throw SaveError(shown(key) + " is " + shown(value) + "; it must be a text");
    }
    return value.get<std::string>();
}

std::string shown(const json& value) {
    return shortened(value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace), kLongestShown);
}
}  // namespace pipescope
