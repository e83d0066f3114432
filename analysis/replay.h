#pragma once

#include "analysis/comparison.h"
#include "simulator/contention.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// One measured step by its task graph: when each task ran. Both are as long as the graph has tasks; in ns.
struct MeasuredTasks {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
};

/// The tasks of each of these steps. Nothing unless every task of the graph was recorded in every step.
std::optional<std::vector<MeasuredTasks>> measured_tasks(const Timeline& timeline, std::span<const std::int32_t> steps,
                                                         const TaskGraph& graph);

/// A step run again on the virtual clock from its recorded durations: makespans in ns, first forward's start to last
/// backward's end.
struct ReplayedStep {
    std::int64_t measured = 0;
    /// Every task starts as soon as all it waits for has ended: what the schedule alone makes of these durations. Where
    /// lanes took cores in turns, it waits for a core too, in the recorded order: which of two lanes asked first hangs
    /// on microseconds, and the other order is another schedule, longer or shorter by some percent.
    std::int64_t replayed = 0;
    /// It starts later by its recorded gap: what went by between the end of the last task it waited for and its own
    /// start. A task recorded before what it waits for has no gap, so a graph that is not the one that ran shows.
    std::int64_t with_gaps = 0;
};
ReplayedStep replay_step(const TaskGraph& graph, const MeasuredTasks& tasks,
                         const std::optional<CoresInTurn>& turns = std::nullopt);

/// The self-check of a recorded run: with its own durations instead of predicted ones only hand-offs between tasks are
/// missing; with its recorded gaps nothing is, if the schedule simulated is the one that ran. The measured instants
/// put into the memory model do the same for memory: what is left of a peak's error is not for wrong times.
/// Empty if a task of a compared step was not recorded, and for a schedule that never drains. Throws as simulate()
/// for a profile or options that do not fit.
std::optional<Replay> replay(const Measured& measured, const Profile& profile, const PipelineOptions& options);
}  // namespace pipescope
