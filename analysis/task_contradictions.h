#pragma once

#include "analysis/load_run.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
/// Warnings about measured tasks of `steps` whose times cannot all be true. They compare the tasks of `measured` with
/// each other; the steps' lengths come from their tasks.
///
/// Clocks. A forward needs the forward of the partition before, and a backward needs the backward of the partition
/// after. If a task runs before the task that it needs, by more than the clocks of the merged processes may differ, the
/// lanes do not fit together: a refusal above a hundredth of the step, otherwise a caution. PipeScope starts a task
/// after everything it needs has ended. A range of another program may contain the wait for its input, so there only
/// ends are compared. Traces of one PipeScope process have one clock and are not checked.
///
/// Overlaps. A caution if tasks of one lane run at the same time for more than a hundredth of a step.
///
/// Cost: O(tasks log tasks).
std::vector<TraceWarning> contradiction_warnings(const RecordedRun& run, const Timeline& measured,
                                                 std::span<const std::int32_t> steps);

/// All reasons why idle time in the steps is uncertain: idle_lane_warnings(), contradiction_warnings(), and a step that
/// may have been cut off.
std::vector<TraceWarning> idle_time_warnings(const RunTasks& tasks);
}  // namespace pipescope
