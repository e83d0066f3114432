#include "analysis/paired_ratio.h"

#include "analysis/mean_difference.h"
#include "base/sample_statistics.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace pipescope {
double PairedRatio::least_change() const {
    return std::sqrt(high / low) - 1;
}

std::optional<int> PairedRatio::pairs_to_decide() const {
    constexpr double kPower = 0.8416;  // the 80th percentile of the normal distribution
    if (pairs < 2 || is_distinct()) {
        return std::nullopt;
    }
    for (int n = pairs + 1; n <= kMostPairs; ++n) {
        if ((student_t(n - 1) + kPower) * deviation / std::sqrt(n) <= std::abs(std::log(ratio))) {
            return n;
        }
    }
    return std::nullopt;
}

PairedRatio paired_ratio(std::span<const double> before, std::span<const double> after) {
    std::vector<double> logarithms;
    for (std::size_t k = 0; k < before.size(); ++k) {
        logarithms.push_back(std::log(after[k] / before[k]));
    }
    const double center = mean_of(logarithms);
    PairedRatio found{static_cast<int>(logarithms.size()), std::exp(center), standard_deviation(logarithms)};
    const double half = found.pairs < 2 ? 0 : student_t(found.pairs - 1) * found.deviation / std::sqrt(found.pairs);
    found.low = std::exp(center - half);
    found.high = std::exp(center + half);
    return found;
}
}  // namespace pipescope
