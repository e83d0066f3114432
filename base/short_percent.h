#pragma once

#include "base/printable.h"

#include <cmath>
#include <string>

namespace pipescope {
/// For a sentence: "23 %", "8.2 %". At most one decimal.
inline std::string short_percent(double share) {
    return shortest(std::round(1000 * share) / 10 + 0.0) + " %";
}
/// Likewise of a difference of shares: "8.2 points".
inline std::string short_points(double share) {
    return shortest(std::round(1000 * share) / 10 + 0.0) + " points";
}
}  // namespace pipescope
