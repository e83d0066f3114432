#pragma once

#include "gui/timeline/timeline_store.h"

#include <vector>

namespace pipescope {
/// Span and bubble of each step, as in step_statistics(), in order of time. Steps without a compute task are omitted.
/// One pass over the rows, which is necessary for runs of ten thousand steps.
std::vector<StepSpan> stepSpans(const std::vector<StoredRow>& rows, std::size_t lanes);
}  // namespace pipescope
