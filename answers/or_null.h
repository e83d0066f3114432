#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace pipescope {
/// The value, or null without one. A duration becomes a number of ns.
template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
    if (!value) {
        return nullptr;
    }
    if constexpr (requires { value->count(); }) {
        return value->count();
    } else {
        return *value;
    }
}

/// The text, or null if it is empty.
inline nlohmann::ordered_json text_or_null(const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}
}  // namespace pipescope
