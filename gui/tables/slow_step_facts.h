#pragma once

#include "analysis/slow_step.h"
#include "gui/tables/selection_facts.h"

namespace pipescope {
/// Why a step is slower or faster than the median step, as sentences and tables. The columns are this step, the median
/// step, and the difference.
SelectionFacts slowStepFacts(const TraceDocument& document, const SlowStep& step);
/// The facts about the difference of two lanes.
SelectionFacts laneDifferenceFacts(const TraceDocument& document, const LaneDifference& lane);
}  // namespace pipescope
