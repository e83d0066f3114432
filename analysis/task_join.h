#pragma once

#include "analysis/step_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace pipescope {
/// Why a task has no twin.
enum class UnmatchedReason {
    repeated,             ///< a task of this key ran in this step before
    outside_the_step,     ///< the optimizer, or the sum over replicas, which are not compared
    copy_not_simulated,   ///< measured, but the simulation's lanes share a device, or it has no link
    not_in_the_schedule,  ///< measured, but the simulated schedule has no such task
    not_recorded,         ///< simulated, but the step does not have it
    lost,                 ///< the same, of a trace that lost ranges
};
/// As it stands behind "unmatched, since": "it was not recorded in this step".
std::string_view describe(UnmatchedReason reason);

/// The tasks of one measured step joined with those of the simulated one by TaskKey, the step of the key aside. Each
/// task of either stands in exactly one list, by its position in the list it came in. If a task ran twice, the first
/// one is joined.
struct TaskJoin {
    struct Pair {
        std::size_t measured = 0;
        std::size_t simulated = 0;
    };
    struct Single {
        std::size_t task = 0;
        UnmatchedReason reason = UnmatchedReason::not_recorded;
    };
    std::vector<Pair> pairs;  ///< by measured position
    std::vector<Single> measured;
    std::vector<Single> simulated;
};
/// `lossy`: records were lost, so that a task that is missing may have run. Cost: O(tasks).
TaskJoin join_tasks(std::span<const TaskKey> measured, std::span<const TaskKey> simulated, bool lossy = false);

struct UnmatchedTask {
    Source source = Source::measured;
    SliceRef slice;
    TaskKey key;
    UnmatchedReason reason = UnmatchedReason::not_recorded;
};

/// A measured task beside the simulated one, each since its own step's start.
struct TaskPair {
    SliceRef measured;
    SliceRef simulated;
    TaskKey key;                    ///< of the measured one
    std::int64_t start_change = 0;  ///< ns; measured minus simulated: above 0, it began later than simulated
    std::int64_t end_change = 0;
    std::int64_t duration_change = 0;
};

/// A TaskJoin with the tasks themselves.
struct TaskMatching {
    std::vector<TaskPair> pairs;           ///< by measured start
    std::vector<UnmatchedTask> unmatched;  ///< measured ones first
};
TaskMatching match_tasks(const StepGraph& measured, const StepGraph& simulated, bool lossy = false);
}  // namespace pipescope
