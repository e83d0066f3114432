#include "analysis/mean_difference.h"

#include "base/sample_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace pipescope {
namespace {
double squared(double value) {
    return value * value;
}
}  // namespace

double student_t(double degrees_of_freedom) {
    constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
    const double whole = std::floor(std::max(1.0, degrees_of_freedom));
    if (whole <= static_cast<double>(kTable.size())) {
        return kTable[static_cast<std::size_t>(whole) - 1];
    }
    return whole < 60 ? kTable.back() : whole < 120 ? 2.000 : 1.980;
}

MeanDifference mean_difference(std::span<const double> before, std::span<const double> after) {
    MeanDifference difference{mean_of(before), mean_of(after)};
    difference.noise_is_known = before.size() > 1 && after.size() > 1;
    if (!difference.noise_is_known) {
        return difference;
    }
    const auto count = [](std::span<const double> values) { return static_cast<double>(values.size()); };
    const double one = squared(standard_deviation(before)) / count(before);
    const double other = squared(standard_deviation(after)) / count(after);
    if (one + other > 0) {
        const double degrees =
            squared(one + other) / (squared(one) / (count(before) - 1) + squared(other) / (count(after) - 1));
        difference.standard_error = std::sqrt(one + other);
        difference.limit = student_t(degrees) * difference.standard_error;
    }
    return difference;
}
}  // namespace pipescope
