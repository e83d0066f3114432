#pragma once

#include "gui/timeline/timeline_store.h"

#include <vector>

namespace pipescope {
/// Each step's span and bubble, as step_statistics() has them, in order of time; steps without a compute task are left
/// out. One pass over the rows, which is what a run of ten thousand steps needs.
std::vector<StepSpan> stepSpans(const std::vector<StoredRow>& rows, std::size_t lanes);
}  // namespace pipescope
