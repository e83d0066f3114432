#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace pipescope {
/// Time of a partition's task: the sum of its layers' times in double, divided by the lane's speed and rounded once to
/// ns. Simulator and balance search share this rule, so both compute the same step to the nanosecond.
inline std::int64_t rounded_time(double layers_ns, double speed) {
    return std::llround(layers_ns / speed);
}

inline std::int64_t partition_time(std::span<const double> layers_ns, double speed) {
    double sum = 0;
    for (const double layer : layers_ns) {
        sum += layer;
    }
    return rounded_time(sum, speed);
}
}  // namespace pipescope
