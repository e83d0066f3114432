#pragma once

#include "simulator/clock/virtual_clock.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// Step time with noise on every task. In ns.
struct NoiseBand {
    double mean = 0;
    double low = 0;             ///< 5 % of steps are shorter
    double high = 0;            ///< 5 % of steps are longer
    double standard_error = 0;  ///< of the mean, from the noise of tasks and lanes alone
};

/// Computes the step from the tasks' starts and ends, in ns.
using StepOfTimes = std::function<double(std::span<const double> starts, std::span<const double> ends)>;

/// Noise of tasks; each number is a standard deviation over the mean.
struct StepNoise {
    std::vector<double> own;  ///< by task, independent of all others
    std::vector<int> lanes;   ///< by task: the lane whose lane_cv it shares; -1: none
    double lane_cv = 0;       ///< shared by all tasks of a lane
    double common_cv = 0;     ///< shared by the whole step and all replicas
    int replicas = 1;         ///< copies of the pipeline that wait for each other at the end of the step
};

/// Monte Carlo over the recurrence, or over the event engine if lanes share resources. Each duration is multiplied by
/// three independent lognormal factors of mean 1: the task's own, one that all tasks of its lane share, and one for the
/// whole step. Independent noise averages out over hundreds of tasks; noise shared by a lane or a step does not. The
/// mean lies above the step of mean durations, since every wait takes the later of two, so a simulator fed with means
/// alone is biased low. Draws 100 to 1000 steps, as a fixed budget of tasks allows. Same input, same band. Empty if
/// nothing varies. Precondition: all spans are as long as the clock has tasks.
///
/// Replicas: the tasks and lanes of each vary independently, and the all-reduce of a partition starts when all replicas
/// have reached it. A lane's all-reduces are its last tasks, nothing else waits for them, and each takes the same time
/// in all replicas. So the joint step is the longest of the steps that the replicas would take alone, all-reduces
/// included. This is exact unless lanes share a device, cores or a launching process. The distribution of the longest
/// step follows from that of one replica's step, which is assumed to be lognormal. For 64 replicas of 4 to 8 lanes the
/// mean is 0.3 % too short if tasks vary by 20 %, and 1 % if they vary by 50 %.
std::optional<NoiseBand> noise_band(VirtualClock& clock, std::span<const std::int64_t> durations,
                                    const StepNoise& noise, const StepOfTimes& step);
}  // namespace pipescope
