#pragma once

#include "analysis/step_graph.h"
#include "gui/timeline/timeline_store.h"

#include <vector>

namespace pipescope {
/// Span and bubble of each step, as in step_statistics(), in order of time. Steps without a compute task are omitted.
/// One pass over the rows, which is necessary for runs of ten thousand steps.
std::vector<StepSpan> stepSpans(const std::vector<StoredRow>& rows, std::size_t lanes);
/// The tasks of one of the store's steps; none of another. `graph`: what ran, null if it is not known. Cost: O(slices
/// within the step).
StepGraph stepGraphOf(const TimelineStore& store, std::int32_t step, std::shared_ptr<const TaskGraph> graph = nullptr);
}  // namespace pipescope
