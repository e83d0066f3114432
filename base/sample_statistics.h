#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
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

/// The median element by that value; the larger of the middle two if the number is even. Reorders the elements.
/// Precondition: there is at least one.
template <class Each, class Value = std::identity>
const Each& median_element(std::vector<Each>& all, Value value = {}) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::ranges::nth_element(all, middle, {}, value);
    return *middle;
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

/// 0 for no values. The mean of equal values is exactly that value.
inline double mean_of(std::span<const double> values) {
    if (values.empty()) {
        return 0;
    }
    double above_first = 0;
    for (const double value : values) {
        above_first += value - values.front();
    }
    return values.front() + above_first / static_cast<double>(values.size());
}

/// Standard deviation of a sample (n - 1). 0 for fewer than two values, and for equal values.
inline double standard_deviation(std::span<const double> values) {
    if (values.size() < 2) {
        return 0;
    }
    const double center = mean_of(values);
    double squares = 0;
    for (const double value : values) {
        squares += (value - center) * (value - center);
    }
    return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

/// The value below which `share` of `count` sorted values lie, linear between neighbours. `at(k)` is value k as a
/// double.
template <class At>
double quantile(std::size_t count, double share, const At& at) {
    const double place = share * static_cast<double>(count - 1);
    const auto below = static_cast<std::size_t>(place);
    return std::lerp(at(below), at(std::min(below + 1, count - 1)), place - static_cast<double>(below));
}
}  // namespace pipescope
