#pragma once

#include "balance/profile.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
using Json = nlohmann::ordered_json;

/// Follows a parser through a document, so that a fault in the text itself has a JSON path too. Refuses what the DOM
/// would hide: a key that stands twice, and nesting so deep that writing it back would exhaust the stack.
class JsonPathTracker {
public:
    bool operator()(int depth, Json::parse_event_t event, const Json& parsed);
    /// Of the value being read, such as layers[3].forward_ns[1]; "$" at the top.
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

/// Throws ProfileError whose message starts with the path of the fault.
Json parse_json_with_path(std::string_view text);
}  // namespace pipescope
