#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipescope {
/// The median; for an even number of values, the mean of the middle two. `values` must not be empty. Value is a number
/// or a duration.
template <class Value>
Value median(std::vector<Value> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// `values` must not be empty.
template <class Value>
Value mean(const std::vector<Value>& values) {
    Value sum{};
    for (const Value& value : values) {
        sum += value;
    }
    return sum / static_cast<std::int64_t>(values.size());
}
}  // namespace pipescope
