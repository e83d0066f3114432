#pragma once

#include "base/error.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The value among `all` that to_string() calls `name`. Otherwise throws UsageError: "<fault>; it must be one of a, b,
/// c; <remedy>".
template <class Value>
Value parse_name(std::string_view name, const std::vector<Value>& all, const std::string& fault,
                 const std::string& remedy) {
    std::string known;
    for (const Value& value : all) {
        if (to_string(value) == name) {
            return value;
        }
        known += (known.empty() ? "" : ", ") + to_string(value);
    }
    throw UsageError(fault + "; it must be one of " + known + "; " + remedy);
}
}  // namespace pipescope
