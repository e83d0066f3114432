#pragma once

#include <nlohmann/json.hpp>

#include <optional>

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
}  // namespace pipescope
