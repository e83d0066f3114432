#pragma once

#include "simulator/step_clock.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace pipescope {
/// Step time when every task varies. In ns.
struct NoiseBand {
    double mean = 0;
    double low = 0;   ///< 5 % of steps are shorter
    double high = 0;  ///< 5 % of steps are longer
};

/// What of the tasks' starts and ends is the step, in ns.
using StepOfTimes = std::function<double(std::span<const double> starts, std::span<const double> ends)>;

/// Monte Carlo over the recurrence, or the event engine where lanes share something: every task's duration is
/// multiplied by its own lognormal factor of mean 1 and the task's cv, independent of all others, and the whole step by
/// one with `common_cv`. Independent noise averages out over hundreds of tasks; what is common to a step does not. The
/// mean lies above the step of mean durations, since every wait takes the later of two; a simulator fed with means
/// alone is biased low. Draws as many steps as a fixed budget of tasks allows, 100 to 1000. Same input, same band.
/// Nothing if no cv is above 0. Precondition: both spans are as long as the clock has tasks.
std::optional<NoiseBand> noise_band(StepClock& clock, std::span<const std::int64_t> durations,
                                    std::span<const double> cvs, const StepOfTimes& step, double common_cv = 0);
}  // namespace pipescope
