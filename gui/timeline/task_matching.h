#pragma once

#include "gui/timeline/step_graph.h"
#include "gui/timeline/timeline_store.h"

#include <QString>

#include <cstdint>
#include <vector>

namespace pipescope {
/// Reasons why a task has no twin.
enum class UnmatchedReason {
    repeated,             ///< a task with this key ran earlier in the step
    outside_the_step,     ///< the optimizer or an all-reduce, which simulated steps do not contain
    copy_not_simulated,   ///< measured, but the simulated lanes share a device or have no link
    not_in_the_schedule,  ///< measured, but not in the simulated schedule
    not_recorded,         ///< simulated, but not in the measured step
    lost,                 ///< as not_recorded, in a trace that lost ranges
};
QString describe(UnmatchedReason reason);

struct UnmatchedTask {
    Source source = Source::measured;
    SliceRef slice;
    TaskKey key;
    UnmatchedReason reason = UnmatchedReason::not_recorded;
};

/// A measured task and its simulated twin, with times since the start of their own steps.
struct TaskPair {
    SliceRef measured;
    SliceRef simulated;
    TaskKey key;                   ///< of the measured task
    std::int64_t startChange = 0;  ///< ns; measured minus simulated: positive if it started later than simulated
    std::int64_t endChange = 0;
    std::int64_t durationChange = 0;
};

/// Joins a measured step and the simulated step by TaskKey. Each task is in exactly one of the two lists.
struct TaskMatching {
    std::vector<TaskPair> pairs;           ///< by measured start
    std::vector<UnmatchedTask> unmatched;  ///< measured tasks first
};
/// `lossy`: the recorder lost ranges, so a missing task may have run.
TaskMatching matchTasks(const StepGraph& measured, const StepGraph& simulated, bool lossy = false);
}  // namespace pipescope
