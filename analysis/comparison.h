#pragma once

#include "simulator/simulation.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
struct ComparedLane {
    Nanoseconds measured_busy{0};
    Nanoseconds simulated_busy{0};
    double measured_bubble_fraction = 0;
    double simulated_bubble_fraction = 0;
    std::optional<Bytes> measured_peak_bytes;  ///< highest of the steps compared; nothing if memory was not recorded
    Bytes simulated_peak_bytes = 0;
};

struct ComparedTask {
    TaskKey task;  ///< of the measured step whose duration is the median
    Nanoseconds measured{0};
    Nanoseconds simulated{0};
};

/// Recorded steps run again on the virtual clock (replay.h), a check of schedule and recording. Medians over the steps.
struct Replay {
    Nanoseconds step_time{0};       ///< from the tasks' measured durations
    double error = 0;               ///< that / measured - 1: the hand-offs between tasks, which take time too
    double with_gaps_error = 0;     ///< the same with the recorded gaps; 0 if the schedule is the one that ran
    std::vector<Bytes> peak_bytes;  ///< by lane: the memory model at the measured instants, highest of the steps
};

/// The predicted and the measured step. Every error is computed from these two.
struct JudgedStep {
    Nanoseconds measured{0};
    Nanoseconds simulated{0};
    double measured_bubble = 0;
    double simulated_bubble = 0;
    bool is_mean = false;  ///< else the median, and the step without noise
};

/// Measured steps against one simulated step, joined by TaskKey. Medians over the steps compared, except for counts and
/// peaks. The optimizer is outside the step and left out.
struct Comparison {
    std::vector<std::int32_t> steps;
    Nanoseconds measured_step_time{0};
    Nanoseconds simulated_step_time{0};  ///< without noise
    Nanoseconds measured_step_mean{0};
    std::optional<Nanoseconds> simulated_step_mean;  ///< where the profile knows its noise: the step to expect
    double step_error = 0;                           ///< simulated / measured - 1, of judged()
    double measured_bubble_fraction = 0;
    double simulated_bubble_fraction = 0;
    double measured_bubble_mean = 0;
    std::optional<double> simulated_bubble_mean;
    std::optional<Nanoseconds> measured_wall_step_time;
    std::int64_t tasks_matched = 0;
    std::int64_t tasks_unmatched = 0;  ///< in one but not the other, or a second time in its step; over all steps
    std::vector<ComparedLane> lanes;
    std::vector<ComparedTask> worst;  ///< the ten with the largest difference, largest first
    std::optional<Replay> replay;     ///< filled in by whoever has the profile; compare() leaves it out

    /// Means where the profile knows noise: noise makes a step longer, since every wait takes the later of two, so a
    /// mean is what a run takes, and is held against the run's mean.
    JudgedStep judged() const;
};

/// What was measured, as a trace holds it. A borrowed view.
struct Measured {
    const Timeline& timeline;
    const std::vector<MemorySample>& memory;
    std::vector<std::int32_t> steps;           ///< to compare: warm-up left out
    std::vector<Nanoseconds> wall_step_times;  ///< of those steps, or empty
};

/// Lanes: as many as the side with more has; a lane that one side lacks has zeros there.
/// Throws Error if there is no step to compare, or a step has no compute task.
Comparison compare(const Measured& measured, const Simulation& simulation);
}  // namespace pipescope
