#pragma once

#include "gui/timeline/step_graph.h"
#include "gui/timeline/timeline_store.h"

#include <QString>

#include <cstdint>
#include <vector>

namespace pipescope {
/// Why a task has no twin.
enum class UnmatchedReason {
    repeated,             ///< a task of this key ran in this step before
    outside_the_step,     ///< the optimizer, or the sum over replicas, which no simulated step contains
    copy_not_simulated,   ///< measured, but the simulation's lanes share a device, or it has no link
    not_in_the_schedule,  ///< measured, but the simulated schedule has no such task
    not_recorded,         ///< simulated, but the step does not have it
    lost,                 ///< the same, of a trace that lost ranges
};
QString describe(UnmatchedReason reason);

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
    TaskKey key;                   ///< of the measured one
    std::int64_t startChange = 0;  ///< ns; measured minus simulated: above 0, it began later than simulated
    std::int64_t endChange = 0;
    std::int64_t durationChange = 0;
};

/// One measured step joined with the simulated one by TaskKey. Each task of either is in exactly one of the two lists.
struct TaskMatching {
    std::vector<TaskPair> pairs;           ///< by measured start
    std::vector<UnmatchedTask> unmatched;  ///< measured ones first
};
/// `lossy`: the recorder lost ranges, so that what is missing may have run.
TaskMatching matchTasks(const StepGraph& measured, const StepGraph& simulated, bool lossy = false);
}  // namespace pipescope
