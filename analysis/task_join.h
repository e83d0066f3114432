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
    repeated,             ///< a task with this key already ran in this step
    outside_the_step,     ///< the optimizer or the all-reduce, which are not compared
    copy_not_simulated,   ///< measured, but the simulation's lanes share a device, or it has no link
    not_in_the_schedule,  ///< measured, but the simulated schedule has no such task
    not_recorded,         ///< simulated, but missing in the step
    lost,                 ///< simulated, but missing in the step of a trace that lost ranges
};
/// What measured tasks are compared with.
enum class Opposite { simulation, run_before };
/// Worded to follow "unmatched, since": "it was not recorded in this step".
std::string_view describe(UnmatchedReason reason, Opposite opposite = Opposite::simulation);

/// The tasks of one measured step joined with the tasks of the simulated step, by TaskKey without the step. Each task
/// is in exactly one list, as its index in the input list. If a task ran twice, the first run is joined.
struct TaskJoin {
    struct Pair {
        std::size_t measured = 0;
        std::size_t simulated = 0;
    };
    struct Single {
        std::size_t task = 0;
        UnmatchedReason reason = UnmatchedReason::not_recorded;
    };
    std::vector<Pair> pairs;  ///< by measured index
    std::vector<Single> measured;
    std::vector<Single> simulated;
};
/// `lossy`: records were lost, so a missing task may have run. Cost: O(tasks).
TaskJoin join_tasks(std::span<const TaskKey> measured, std::span<const TaskKey> simulated, bool lossy = false);

/// Whether a recording shows copies and losses. A simulation shows both. Another program's recording often shows
/// neither.
struct RecordedKinds {
    bool copies = false;
    bool losses = false;

    void add(TaskKind kind) {
        copies = copies || is_copy(kind);
        losses = losses || kind == TaskKind::loss;
    }
    /// True if a simulated copy or loss without a twin is not missing: it takes no time, or the recording shows none of
    /// its kind.
    bool lacks(TaskKind kind, std::int64_t duration) const {
        const bool is_loss = kind == TaskKind::loss;
        return (is_copy(kind) && (!copies || duration == 0)) || (is_loss && (!losses || duration == 0));
    }
};

struct UnmatchedTask {
    Source source = Source::measured;
    SliceRef slice;
    TaskKey key;
    UnmatchedReason reason = UnmatchedReason::not_recorded;
};

/// A measured task and its simulated twin, each relative to the start of its own step.
struct TaskPair {
    SliceRef measured;
    SliceRef simulated;
    TaskKey key;                    ///< the measured task's key
    std::int64_t start_change = 0;  ///< ns; measured minus simulated: positive if it started later than simulated
    std::int64_t end_change = 0;
};

/// A TaskJoin with tasks instead of indices.
struct TaskMatching {
    std::vector<TaskPair> pairs;           ///< by measured start
    std::vector<UnmatchedTask> unmatched;  ///< measured ones first
};
/// With a simulation, leaves out tasks that RecordedKinds::lacks(). `recorded`: the kinds in the run's other steps.
TaskMatching match_tasks(const StepGraph& measured, const StepGraph& simulated, bool lossy = false,
                         Opposite opposite = Opposite::simulation, RecordedKinds recorded = {});
}  // namespace pipescope
