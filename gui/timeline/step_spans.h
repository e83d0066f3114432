#pragma once

#include "analysis/step_graph.h"
#include "gui/timeline/timeline_store.h"

#include <vector>

namespace pipescope {
/// Span and bubble of each step, as in step_statistics(), in order of time. Steps without a compute task are omitted.
/// One pass over the rows, which is necessary for runs of ten thousand steps.
std::vector<StepSpan> stepSpans(const std::vector<StoredRow>& rows, std::size_t lanes);
/// Likewise for steps that overlap, as statistics_by_step() has them.
std::vector<StepSpan> staggeredSpans(const std::vector<StoredRow>& rows, const std::vector<LaneInfo>& lanes);
/// The tasks of one of the store's steps, and of those that overlap it; empty for another step. `graph`: the graph that
/// ran, null if unknown. Cost: O(slices within the step).
StepGraph stepGraphOf(const TimelineStore& store, std::int32_t step, std::shared_ptr<const TaskGraph> graph = nullptr);
}  // namespace pipescope
