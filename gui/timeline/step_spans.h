#pragma once

#include "analysis/step_graph.h"
#include "gui/timeline/timeline_store.h"

#include <vector>

namespace pipescope {
/// Each step's span and bubble, as step_statistics() has them, in order of time; steps without a compute task are left
/// out. One pass over the rows, which is what a run of ten thousand steps needs.
std::vector<StepSpan> stepSpans(const std::vector<StoredRow>& rows, std::size_t lanes);
/// The tasks of one of the store's steps; none of another. `graph`: what ran, null if it is not known. Cost: O(slices
/// within the step).
StepGraph stepGraphOf(const TimelineStore& store, std::int32_t step, std::shared_ptr<const TaskGraph> graph = nullptr);
}  // namespace pipescope
