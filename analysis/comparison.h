#pragma once

#include "analysis/step_peaks.h"
#include "analysis/task_join.h"
#include "schedule/backward_half.h"
#include "simulator/model_error.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace pipescope {
/// The error of a prediction: predicted / measured - 1, so positive if it was too high. Empty if `measured` is 0.
std::optional<double> relative_error(double predicted, double measured);
std::optional<double> relative_error(Nanoseconds predicted, Nanoseconds measured);

struct ComparedLane {
    Nanoseconds measured_busy{0};
    Nanoseconds simulated_busy{0};
    double measured_bubble_fraction = 0;
    double simulated_bubble_fraction = 0;
    std::optional<Bytes> measured_peak_bytes;   ///< highest over the compared steps; empty if memory was not recorded
    std::optional<Bytes> simulated_peak_bytes;  ///< empty if unknown to the profile, or to the run before
    bool recorded = true;                       ///< RunLane::recorded of the measured side
};

struct ComparedTask {
    TaskKey task;  ///< from the measured step with the median duration
    Nanoseconds measured{0};
    Nanoseconds simulated{0};
    std::optional<BackwardHalf> half = {};  ///< if the backward is split
};

/// Recorded steps replayed on the virtual clock (replay.h), to check schedule and recording. Medians over the steps.
struct Replay {
    Nanoseconds step_time{0};    ///< from the tasks' measured durations
    double error = 0;            ///< step_time / median measured - 1: the error from missing hand-offs between tasks
    double with_gaps_error = 0;  ///< the same with the recorded gaps; 0 if the simulated schedule is the real one
    /// By lane: the memory model at the measured instants, highest over the steps. Empty if memory is unknown.
    std::vector<Bytes> peak_bytes;
};

/// The predicted and the measured step. Every error is computed from these two.
struct JudgedStep {
    Nanoseconds measured{0};
    Nanoseconds simulated{0};
    double measured_bubble = 0;
    double simulated_bubble = 0;
    bool is_mean = false;  ///< otherwise the median, against the step without noise
};

/// Measured steps compared with one simulated step, or with the typical step of another run. Tasks are joined by
/// TaskKey. Medians over the compared steps, except for counts and peaks. Excludes the optimizer, which is outside the
/// step unless updates are staggered. With two runs, `simulated` stands for the run before, whose means are known.
struct Comparison {
    std::vector<std::int32_t> steps;
    Nanoseconds measured_step_time{0};
    Nanoseconds simulated_step_time{0};  ///< without noise
    Nanoseconds measured_step_mean{0};
    std::optional<double> measured_standard_error;   ///< standard error of the mean, relative to it; empty for one step
    std::optional<Nanoseconds> simulated_step_mean;  ///< the expected step, if the profile has noise
    double step_error = 0;                           ///< simulated / measured - 1, from judged()
    double measured_bubble_fraction = 0;
    double simulated_bubble_fraction = 0;
    double measured_bubble_mean = 0;
    std::optional<double> simulated_bubble_mean;
    std::optional<Nanoseconds> measured_wall_step_time;
    std::int64_t tasks_matched = 0;
    /// Tasks in only one of the two, or repeated in a step; over all steps. Leaves out tasks that
    /// RecordedKinds::lacks().
    std::int64_t tasks_unmatched = 0;
    std::int64_t tasks_only_simulated = 0;  ///< those that are only in the simulated step
    RecordedKinds recorded;                 ///< by any of the steps
    std::vector<ComparedLane> lanes;
    std::vector<ComparedTask> worst;  ///< keep_worst() of each task's median over the steps, with the step that has it
    std::optional<Replay> replay;     ///< set by compare_trace(); compare() leaves it empty

    /// Compares means if the profile has noise, otherwise medians. Noise makes a step longer, since every wait takes
    /// the later of two ends, so the run's mean must be compared with the expected step.
    JudgedStep judged() const;
};

/// The measured side of a comparison, from a trace. A borrowed view.
struct Measured {
    const Timeline& timeline;
    StepPeaks peaks;                           ///< empty if memory is left out
    std::vector<std::int32_t> steps;           ///< to compare, without warm-up
    std::vector<Nanoseconds> wall_step_times;  ///< of those steps, or empty
    /// With staggered updates, the timeline also needs the neighbours of each step, which overlap it.
    Update update = Update::synchronous;
};

/// The tasks of each compared step, without the optimizer unless updates are staggered, which makes it part of the
/// step.
std::map<std::int32_t, Timeline> compared_tasks(const Measured& measured);

/// statistics_by_step() of the compared steps. Throws Error if a step has no compute task.
std::map<std::int32_t, StepStatistics> statistics_of(const Measured& measured);

struct RunLane {
    Nanoseconds busy{0};
    double bubble_fraction = 0;
    std::optional<Bytes> peak_bytes;  ///< highest over the steps; empty if memory was not recorded
    bool recorded = true;             ///< false: it computes in no step, as in the trace of another process
};

/// Figures over the compared steps of a run. Lanes have medians.
struct RunFigures {
    std::vector<std::int32_t> steps;
    std::vector<Nanoseconds> step_times;  ///< by step number
    std::vector<double> bubbles;          ///< by step number
    Nanoseconds step_time{0};             ///< median
    Nanoseconds step_mean{0};
    double bubble_fraction = 0;  ///< median
    double bubble_mean = 0;
    std::optional<Nanoseconds> wall_step_time;  ///< median
    std::optional<Nanoseconds> pipeline_time;   ///< median, if each step also contains work after the traced pipeline
    std::vector<RunLane> lanes;
};
/// Throws Error if there is no step to compare, or if a step has no compute task.
RunFigures run_figures(const Measured& measured);

/// One step that holds each task of the compared steps, taken from the step in which its duration was the
/// median_element(). Tasks have step 0 and times since the start of their step. They come from different steps, so they
/// may overlap. If a task ran twice in a step, the first run counts.
Timeline typical_step(const Measured& measured);

/// The result has as many lanes as the side with more; a lane that one side lacks has zeros there. Throws Error if
/// there is no step to compare, or if a step has no compute task.
Comparison compare(const Measured& measured, const Simulation& simulation);
/// Compares with the figures and typical_step() of another run. `figures` belong to `after`. Make both figures with the
/// same function: run_figures(), or figures_of() for layouts on clusters. Throws Error if there is no step to compare,
/// or if a step has no compute task.
Comparison compare(const Measured& after, const RunFigures& figures, const RunFigures& before, const Timeline& typical);

/// Error of the simulated mean step, or of the step without noise if the profile has none. Empty if either side has no
/// step, or if the other side is a run.
std::optional<ModelError> model_error(const Comparison& comparison);

/// Keeps the ten tasks with the largest difference, largest first. Drops tasks without a difference.
void keep_worst(std::vector<ComparedTask>& tasks);
}  // namespace pipescope
