#pragma once

#include "analysis/task_join.h"
#include "gui/document/trace_document.h"

#include <QString>

#include <cstddef>
#include <vector>

namespace pipescope {
/// Tasks without a twin that share a reason.
struct UnmatchedTasks {
    QString reason;
    std::size_t count = 0;
    std::vector<TaskKey> examples;  ///< the first few, in order of time
};

/// All tasks that only one timeline has, over all measured steps, by reason: the sums of match_tasks() for each step.
/// Empty without two timelines. Cost: O(slices log slices), so call it in a worker for a large trace.
std::vector<UnmatchedTasks> unmatchedTasks(const TraceDocument& document);
}  // namespace pipescope
