#pragma once

#include "profiler/profile/profile.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
using Json = nlohmann::ordered_json;

/// Tracks a parser's position in a document, so that syntax errors have a JSON path too. Refuses what the DOM would
/// hide: duplicate keys, and nesting so deep that writing it back would exhaust the stack.
class JsonPathTracker {
public:
    bool operator()(int depth, Json::parse_event_t event, const Json& parsed);
    /// Path of the value being read, such as layers[3].forward_ns[1]; "$" at the top.
    std::string path() const;

private:
    struct Frame {
        bool is_array = false;
        std::size_t index = 0;
        std::string key = {};
        std::set<std::string> seen = {};
    };
    void close_value();

    std::vector<Frame> frames_;
};

/// The advice at the end of a message about a profile.
inline constexpr const char* kProfileRemedy = "correct it, or profile again";

/// Throws ProfileError whose message starts with the path of the fault. `file` names the expected content, and `remedy`
/// what to do otherwise.
Json parse_json_with_path(std::string_view text, std::string_view file = "a profile",
                          std::string_view remedy = kProfileRemedy);

/// Throws ProfileError with the path, the value, cut if long, what it must be, and what to do.
[[noreturn]] void wrong_type(const std::string& path, const Json& value, const std::string& wanted,
                             const std::string& remedy = kProfileRemedy);

/// Throws ProfileError for a key that is none of `known` (base/known_keys.h). `file` names what to correct.
void refuse_unknown_keys(const Json& object, const std::string& path, const std::vector<std::string>& known,
                         const std::string& file);

/// As in a file. Invalid UTF-8 is replaced.
std::string dumped(const Json& json);

/// Reads each element of an array by read(element, its path). `wanted` describes the array in messages.
template <typename Read>
auto read_array(const Json& json, const std::string& path, const std::string& wanted, Read read,
                const std::string& remedy = kProfileRemedy) {
    if (!json.is_array()) {
        wrong_type(path, json, wanted, remedy);
    }
    std::vector<decltype(read(json, path))> values;
    values.reserve(json.size());
    for (std::size_t k = 0; k < json.size(); ++k) {
        values.push_back(read(json[k], path + "[" + std::to_string(k) + "]"));
    }
    return values;
}
}  // namespace pipescope
