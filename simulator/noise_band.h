#pragma once

#include "simulator/virtual_clock.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// Step time when every task varies. In ns.
struct NoiseBand {
    double mean = 0;
    double low = 0;   ///< 5 % of steps are shorter
    double high = 0;  ///< 5 % of steps are longer
};

/// What of the tasks' starts and ends is the step, in ns.
using StepOfTimes = std::function<double(std::span<const double> starts, std::span<const double> ends)>;

/// By how much tasks vary, each number a standard deviation over the mean.
struct StepNoise {
    std::vector<double> own;  ///< of each task on its own
    std::vector<int> lanes;   ///< whose lane_cv each task has; -1: none
    double lane_cv = 0;       ///< of all tasks of a lane together
    double common_cv = 0;     ///< of the whole step
};

/// Monte Carlo over the recurrence, or the event engine where lanes share something: every task's duration is
/// multiplied by its own lognormal factor of mean 1, by one that all tasks of its lane share, and the whole step by one
/// more; all are independent. Independent noise averages out over hundreds of tasks; what a lane or a step has in
/// common does not. The mean lies above the step of mean durations, since every wait takes the later of two; a
/// simulator fed with means alone is biased low. Draws as many steps as a fixed budget of tasks allows, 100 to 1000.
/// Same input, same band. Nothing if nothing varies. Precondition: all spans are as long as the clock has tasks.
std::optional<NoiseBand> noise_band(VirtualClock& clock, std::span<const std::int64_t> durations,
                                    const StepNoise& noise, const StepOfTimes& step);
}  // namespace pipescope
