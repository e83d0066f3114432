#pragma once

#include "analysis/comparison.h"
#include "simulator/clock/contention.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
class TaskClock;

/// Start and end of each task of one measured step, in graph order and ns.
struct MeasuredTasks {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
};

/// The tasks of each of these steps, without the steps in which a task of the graph was not recorded. Reads the
/// timeline once.
std::vector<MeasuredTasks> complete_steps(const Timeline& timeline, std::span<const std::int32_t> steps,
                                          const TaskGraph& graph);
/// The tasks of each of these steps. Empty unless every task of the graph was recorded in every step.
std::optional<std::vector<MeasuredTasks>> measured_tasks(const Timeline& timeline, std::span<const std::int32_t> steps,
                                                         const TaskGraph& graph);

/// A step replayed on the virtual clock with its recorded durations. Makespans in ns, from first forward's start to
/// last backward's end.
struct ReplayedStep {
    std::int64_t measured = 0;
    /// Every task starts as soon as its dependencies have ended: the effect of the schedule alone. If lanes took cores
    /// in turns, a task also waits for a core, in the recorded order. Otherwise microseconds would decide which of two
    /// lanes asks first, and the other order is a different schedule, a few percent longer or shorter.
    std::int64_t replayed = 0;
    /// Every task also waits for its recorded gap: the time from the end of its last dependency to its start. A task
    /// recorded before a dependency has no gap, which shows that the graph is not the one that ran.
    std::int64_t with_gaps = 0;
};
ReplayedStep replay_step(const TaskGraph& graph, const MeasuredTasks& tasks,
                         const std::optional<CoresInTurn>& turns = std::nullopt);

/// First start to last end of the tasks that count as the step, in ns. `starts` and `ends` in graph order.
std::int64_t makespan(const TaskGraph& graph, std::span<const std::int64_t> starts, std::span<const std::int64_t> ends);
/// Length of the step with these durations, in ns and graph order. Before each task passes its gap.
std::int64_t makespan_of(const TaskGraph& graph, const TaskClock& clock, std::span<const std::int64_t> durations,
                         std::span<const std::int64_t> gaps);

/// How late each task started, in ns, after everything that it needs had ended and, if lanes took cores in turns, a
/// core was free. These delays are hand-offs: another thread wakes up, or gets a core that a program outside holds.
/// `is_instant`: copies that take no time; a task that needs such a copy waits for the copy's dependencies instead.
std::vector<std::int64_t> start_delays(const TaskGraph& graph, const MeasuredTasks& tasks,
                                       const std::vector<bool>& is_instant,
                                       const std::optional<CoresInTurn>& turns = std::nullopt);

/// Self-check of a recorded run. With measured instead of predicted durations, only the hand-offs between tasks are
/// missing. With the recorded gaps, nothing is missing if the simulated schedule is the one that ran. The memory model
/// at the measured instants does the same for memory: any remaining error of a peak is not due to wrong times.
///
/// Empty if a task of a compared step was not recorded, and for a schedule that never drains. Throws as simulate() if
/// profile and options do not fit.
std::optional<Replay> replay(const Measured& measured, const CheckedProfile& profile, const PipelineOptions& options);
}  // namespace pipescope
