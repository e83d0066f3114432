#pragma once

#include <cstddef>
#include <vector>

namespace pipescope {
// Values of a slider, in ascending order. The slider moves over their indices, so the values determine its scale:
// logarithmic for rates, linear for counts.

/// Every whole number from `first` to 64, then steps of 3 to 6 % up to `last`, which is included.
std::vector<double> wholeStops(int first, int last);
/// 1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, ..: 24 per decade. `first` and `last` are powers of ten.
std::vector<double> decadeStops(double first, double last);
/// Four per doubling: 1, 1.25, 1.5, 1.75, 2, ... `first` and `last` are powers of two.
std::vector<double> doublingStops(double first, double last);

/// Index of the stop nearest to `value`, by ratio if both are positive. `stops` must not be empty.
std::size_t nearestStop(const std::vector<double>& stops, double value);
}  // namespace pipescope
