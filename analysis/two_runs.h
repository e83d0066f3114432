#pragma once

#include "analysis/compared_bubbles.h"
#include "analysis/kernel_sums.h"
#include "analysis/load_run.h"
#include "analysis/mean_difference.h"
#include "analysis/name_join.h"
#include "schedule/backward_half.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// Two recorded runs, before and after a change. Differences are always after minus before.

/// The pipeline's shape as a run's tasks show it, for files without a configuration.
struct TaskShape {
    int partitions = 0;
    int micro_batches = 0;
    bool splits_backward = false;  ///< it has backward_weight tasks, so its backward tasks compute only input gradients

    void add(const TaskKey& key);
    friend bool operator==(const TaskShape&, const TaskShape&) = default;
};
TaskShape task_shape(const Timeline& timeline);

/// Processes of the run that the trace is of, or is part of.
int number_of_processes(const LoadedRun& loaded);

/// True if a step has a loss. A program without a loss records zeros, or nothing, which is read as NaN.
bool knows_losses(const RecordedRun& run);
/// Why the steps of two runs do not hold the same work: another model or batch. Empty if they do, as far
/// as the files show.
std::string why_work_differs(const RecordedRun& before, const RecordedRun& after);

/// One of the two runs.
struct ComparedRun {
    std::string name;                   ///< the file's name
    RecordedRun run;                    ///< without tasks
    std::optional<RunFigures> figures;  ///< empty if it has no step to compare; a warning says why
    std::string why_none;               ///< worded like RecordedRun::why_not_simulated; empty if there is a step
    TaskShape shape;                    ///< from its tasks
    BubbleReport bubbles;               ///< of the compared steps
    std::optional<Nanoseconds> step_deviation;  ///< standard deviation of the step times; empty for one step
    std::optional<double> samples_per_second;   ///< in a step of mean length; empty if the batch is unknown
    std::vector<TraceWarning> warnings;

    /// True if bubble fractions are withheld.
    bool lossy() const { return refuse_bubbles(warnings); }
    /// Why step times and rates are withheld; empty if they are known.
    std::string why_no_step_times() const { return pipescope::why_no_step_times(warnings); }
};
/// The run with its figures and all warnings about it, except those about predictions; without name and bubbles.
ComparedRun compared_run(const RunTasks& tasks);
/// Why tasks with equal keys are not equal work: why_work_differs(), another balance, other micro-batches, or backwards
/// that only one run splits. Empty if they are.
std::string why_tasks_differ(const ComparedRun& before, const ComparedRun& after);

/// Means over the compared steps, in ns and 0 to 1. A value is empty if either run withholds it; both are empty if a
/// run has no step to compare.
struct StepChanges {
    std::optional<MeanDifference> step;
    std::optional<MeanDifference> bubble;
};
StepChanges step_changes(const ComparedRun& before, const ComparedRun& after);

/// The tasks of one kind on one partition, in the typical steps (typical_step()).
struct TaskGroup {
    TaskKind kind = TaskKind::forward;
    std::int32_t partition = -1;       ///< -1: all, or a kind without partition
    std::optional<LayerRange> layers;  ///< if the configuration is known; none for copies
    std::int64_t tasks_before = 0;
    std::int64_t tasks_after = 0;
    Nanoseconds before{0};  ///< sum of the tasks
    Nanoseconds after{0};
    std::optional<BackwardHalf> half = {};  ///< if all of them are this half
};

/// A step that both runs recorded, with different losses.
struct DifferentLoss {
    std::int32_t step = 0;
    double before = 0;
    double after = 0;
};
struct LossComparison {
    std::int64_t steps = 0;           ///< that both recorded, warm-up included
    std::int64_t equal = 0;           ///< of these, with exactly the same loss
    std::int64_t without_number = 0;  ///< of these, with a loss that is unknown or not a number in both
    std::optional<DifferentLoss> first;
};

/// A property of the configuration or the machine that differs; "" if a file does not say.
struct ConfigurationDifference {
    std::string what;
    std::string before;
    std::string after;
};

struct TwoRuns {
    ComparedRun before;
    ComparedRun after;
    StepChanges changes;

    // Tasks of the typical steps.
    std::string why_no_tasks;  ///< empty: tasks are joined by key
    std::int64_t tasks_matched = 0;
    std::int64_t tasks_only_before = 0;
    std::int64_t tasks_only_after = 0;
    std::vector<ComparedTask> worst;  ///< the ten largest differences; `measured` is after, `simulated` before
    std::vector<TaskGroup> groups;    ///< matched tasks by kind and partition, the largest difference first
    std::string why_no_kinds;         ///< empty: steps hold the same work
    std::vector<TaskGroup> kinds;     ///< all tasks by kind, in the order of the kinds

    std::optional<NameJoin> names;         ///< instead of tasks, if a run has none to compare
    std::optional<LossComparison> losses;  ///< empty if no step with a loss is in both
    std::vector<ConfigurationDifference> differences;
    std::vector<ComparedKernels> kernels;  ///< compare_kernels(); empty without device work
    std::vector<TraceWarning> warnings;    ///< about the comparison; those about a run are with it
};
/// A sentence if only one run's steps include the update of the parameters; otherwise empty.
std::string update_warning(const RecordedRun& before, const RecordedRun& after);
/// run_figures(). For a layout on a cluster, step times cover the whole step; bubbles and lanes cover the traced
/// pipeline.
RunFigures figures_of(const RecordedRun& run, const Measured& measured);
/// Throws TraceFormatError for a file that is not a trace, or that has neither tasks nor ranges.
TwoRuns compare_two_runs(const std::filesystem::path& before, const std::filesystem::path& after);
}  // namespace pipescope
