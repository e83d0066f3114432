#pragma once

#include <cstddef>
#include <vector>

namespace pipescope {
// The values a slider can stand on, ascending. A slider moves over their positions, which makes its scale what the
// values make it: logarithmic for rates, whole for counts.

/// Every whole number from `first` to 64, then ever longer steps of 3 to 6 %, to `last`, which is there itself.
std::vector<double> wholeStops(int first, int last);
/// 1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, ..: 24 to a decade, from `first` to `last`, powers of ten.
std::vector<double> decadeStops(double first, double last);
/// Four to each doubling: 1, 1.25, 1.5, 1.75, 2, .., from `first` to `last`, powers of two.
std::vector<double> doublingStops(double first, double last);

/// The position of the value nearest to `value`, by ratio where both are positive. `stops` is not empty.
std::size_t nearestStop(const std::vector<double>& stops, double value);
}  // namespace pipescope
