#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/comparison.h"
#include "analysis/recorded_run.h"
#include "analysis/root_causes.h"
#include "simulator/plan/advice.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace pipescope {
/// The root cause of single bubbles, where RootCauses sums up a run. As there, the tasks are replayed with one cause
/// after the other, here with the typical durations of all compared steps; what the lane then waits before a task
/// belongs to the cause that was added. A value; copies share the tables.
class BubbleRoots {
public:
    BubbleRoots() = default;  ///< knows nothing
    /// `slow_lane`: RootCauses::slow_lane. `launches`: RecordedRun::launches. Knows nothing if a forward, backward or
    /// recompute of the graph was recorded in no step. Cost: O(tasks).
    BubbleRoots(const Measured& measured, const TaskGraph& graph, std::optional<LaneId> slow_lane = std::nullopt,
                TaskLaunches launches = {});

    /// The cause that makes most of the time that the lane idles before the bubble's next task, or after its last one.
    /// Empty if it is not known.
    std::optional<RootCause> root_of(const Bubble& bubble, const StepGraph& tasks) const;

private:
    /// Idle time of a lane before a task, in ns: with the ramp alone, with unequal partitions, and with messages.
    using Replays = std::array<std::int64_t, 3>;
    using Place = std::pair<LaneId, std::uint64_t>;  // lane and packed task without its step; kAtTheEnd: after the last
    static constexpr std::uint64_t kAtTheEnd = UINT64_MAX;

    std::shared_ptr<const std::map<Place, Replays>> idle_;  // null: nothing is known
    std::optional<LaneId> slow_lane_;
    TaskLaunches launches_;
};
/// Takes the graph that the run recorded, or else that of its options. `roots`: root_causes() of the same run. Knows
/// nothing with staggered updates, of a simulation, and without a graph.
BubbleRoots bubble_roots(const Measured& measured, const RecordedRun& run, const std::optional<RootCauses>& roots);

/// The compute task of another lane that ends last within the bubble of a lane that is done: who still works. kNoTask
/// for bubbles of another cause.
StepTaskIndex still_works(const Bubble& bubble, const StepGraph& tasks);

/// The kinds of moves that make bubbles of this root cause shorter, the most direct one first.
std::span<const MoveKind> moves_against(RootCause root);
/// The root cause whose bubbles a move of this kind makes shorter; empty if it is about memory.
std::optional<RootCause> root_against(MoveKind move);
}  // namespace pipescope
