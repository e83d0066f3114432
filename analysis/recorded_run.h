#pragma once

#include "analysis/trace_warnings.h"
#include "balance/profile.h"
#include "schedule/task_graph.h"
#include "simulator/pipeline_options.h"
#include "simulator/simulation.h"
#include "trace/opened_trace.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The description of a run in its trace, without tasks and samples: model, options, finished steps, and losses of the
/// recording. A value; copies share the profile.
struct RecordedRun {
    TraceOrigin origin = TraceOrigin::pipescope;
    std::string model;                       ///< empty if the trace does not tell
    std::vector<StepRecord> steps;           ///< in order of time; empty if the training loop told nothing
    std::shared_ptr<const Profile> profile;  ///< null if there is none, or it cannot be used
    std::optional<PipelineOptions> options;  ///< nothing if the trace does not tell
    /// The tasks of each step: as the trace holds them, or else from profile and options. Null if neither tells, and
    /// where no single step keeps to a graph, as with a schedule that never drains.
    std::shared_ptr<const TaskGraph> graph;
    std::optional<MachineLoad> load;  ///< while it ran
    LostRecords lost;
    bool cut_off = false;                ///< recording_cut_off()
    std::vector<TraceWarning> warnings;  ///< trace_warnings()
    /// Why the run cannot be simulated, as it stands behind the file's name ("holds no profile; .."); empty: it can.
    std::string why_not_simulated;

    bool is_warmup(std::int32_t step) const;
    /// True if the recording certainly contains the whole step. In a recording that was cut off, the steps that the
    /// training loop recorded are whole. If it recorded none, all are but the `last` one that has tasks.
    bool is_whole(std::int32_t step, std::int32_t last) const;
};

/// Reads `trace` without its tasks, samples and tracks. Never throws for what the trace says: see why_not_simulated.
RecordedRun recorded_run(const OpenedTrace& trace);
/// The recorded pipeline on the virtual clock. Nothing if it cannot be simulated: why_not_simulated then says why.
std::optional<Simulation> simulate_run(RecordedRun& run);
/// The task graph that the simulator runs for these options. Null if there is none that one step keeps to, as with a
/// schedule that never drains, or if profile and options do not fit.
std::shared_ptr<const TaskGraph> pipeline_graph_of(const Profile& profile, const PipelineOptions& options);
}  // namespace pipescope
