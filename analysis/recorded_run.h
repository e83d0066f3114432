#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/step_on_cluster.h"
#include "analysis/trace_warnings.h"
#include "profiler/profile/profile.h"
#include "schedule/process_facts.h"
#include "schedule/task_graph.h"
#include "simulator/pipeline_options.h"
#include "simulator/simulation.h"
#include "trace/store/opened_trace.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
/// The description of a run in its trace, without tasks and samples: model, options, finished steps, and losses of the
/// recording. A value; copies share the profile.
struct RecordedRun {
    TraceOrigin origin = TraceOrigin::pipescope;
    std::string source;                       ///< "a trace of PyTorch's profiler": this file, or the imported files
    std::string model;                        ///< empty if the trace has none
    std::vector<StepRecord> steps;            ///< by time; empty if the training loop recorded none
    std::optional<CheckedProfile> profile;    ///< empty if there is none, or if it is unusable
    std::optional<PipelineOptions> options;   ///< empty if the trace has none
    std::optional<Nanoseconds> lower_bound;   ///< of the step, if the trace holds a simulation that knew it
    std::optional<StepOnCluster> on_cluster;  ///< if the trace holds a layout on a cluster
    std::optional<Schedule> recorded_order;   ///< another program's order, if it differs from options->schedule
    /// The tasks of each step, from the trace or else from profile and options. Null if neither has them, or if no
    /// single step follows a graph, as with a schedule that never drains.
    std::shared_ptr<const TaskGraph> graph;
    std::optional<MachineLoad> load;  ///< during the run
    /// Another program recorded it: its tasks were recognised, and it has no profile of layers.
    bool of_another_program = false;
    bool only_launches = false;  ///< task times cover only launches on the host (RankTasks::only_launches)
    /// Samples of a micro-batch in another program's run, if its messages show them: the number in most steps, or in
    /// the steps that the profile is measured from.
    std::optional<std::int64_t> micro_batch_samples;
    std::map<std::int32_t, std::int64_t> other_samples;  ///< of the steps with another number; 0: it varies within
    std::optional<MissingRanks> missing;                 ///< missing_ranks()
    std::vector<MergedProcess> processes;                ///< of a merged trace, by rank; otherwise empty
    Nanoseconds early_messages{0};                       ///< by how much messages arrive before they were sent, at most
    TaskLaunches launches;                               ///< of tasks on devices
    LostRecords lost;
    bool cut_off = false;                ///< recording_cut_off()
    std::vector<TraceWarning> warnings;  ///< trace_warnings()
    /// Why the run cannot be simulated, worded to follow the file's name ("holds no profile; .."). Empty if it can.
    std::string why_not_simulated;

    /// The training loop's record of the step; null if it recorded none. Cost: O(1) if steps count up one by one.
    const StepRecord* record_of(std::int32_t step) const;
    /// Samples of a micro-batch in all these steps of another program. Empty if unknown, or if they differ.
    std::optional<std::int64_t> samples_in(std::span<const std::int32_t> numbers) const;
    /// True if the recording certainly contains the whole step. In a recording that was cut off, these are the steps
    /// that the training loop recorded, or, if it recorded none, all steps except the `last` one with tasks.
    bool is_whole(std::int32_t step, std::int32_t last) const;
};

/// True if the number of samples in a step is unknown. Each micro-batch then counts as one sample, and rates in samples
/// are withheld.
bool is_batch_unknown(const RecordedRun& run);
/// Samples of the run's mini-batch. Empty if it has no options, or if the number is unknown.
std::optional<std::int64_t> known_batch(const RecordedRun& run);
/// Why task costs cannot be measured, worded like RecordedRun::why_not_simulated: the trace lacks ranks, and a task
/// whose input comes from a missing rank would cost its wait. Empty if they can.
std::string why_no_costs(const RecordedRun& run);
/// True if the layers' times include recompute, although the options do not name it.
bool layers_recompute(const RecordedRun& run);
/// The options with the checkpoint mode and the optimizer for which memory was counted, if both are the trace's: the
/// layers of a layout on a cluster include them.
PipelineOptions as_counted(const RecordedRun& run, PipelineOptions options);
/// The time after the traced pipeline in its step; 0 unless the run is part of a layout on a cluster.
Nanoseconds after_pipeline(const RecordedRun& run);
/// The update mode in the run's options; synchronous if it has none.
Update update_of(const RecordedRun& run);
/// The send mode in the run's options; none if it has no options.
Sends sends_of(const RecordedRun& run);
/// Reads `trace` without its tasks, samples and tracks. Never throws for the trace's contents: see why_not_simulated.
RecordedRun recorded_run(const OpenedTrace& trace);
/// Adds a warning if the pipeline lacks `partition`, the highest of the run's tasks (-1: no task has a partition).
void warn_of_partition(RecordedRun& run, std::int32_t partition);
/// The run's options, with the order in which it ran. Precondition: it has options.
PipelineOptions options_as_recorded(const RecordedRun& run);
/// Simulates the recorded pipeline, with its lower bound; for a layout on a cluster, with the rest of its step. Empty
/// if that is impossible; why_not_simulated then has the reason. `noise`: as in SimulationDetail; add_noise() adds it
/// later.
std::optional<Simulation> simulate_run(RecordedRun& run, bool noise = true);
/// The task graph that the simulator runs for these options. Null if no single step follows a graph, as with a schedule
/// that never drains, or if profile and options do not fit.
std::shared_ptr<const TaskGraph> pipeline_graph_of(const Profile& profile, const PipelineOptions& options);
}  // namespace pipescope
