#pragma once

#include "analysis/run_verdict.h"
#include "analysis/slow_step.h"
#include "gui/document/step_analysis.h"
#include "gui/document/step_history.h"
#include "gui/document/trace_document.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace pipescope {
/// The verdict of `pipescope compare` on a document's run, or on its simulation if nothing was measured. A file without
/// tasks has one that says so. Precondition: the document is complete and no scenario's. Cost: that of a
/// comparison, and of about 60 simulations. Threading: any thread.
RunVerdict verdictOf(const TraceDocument& document, const std::function<bool()>& cancelled);

/// The error of the simulation on a document's run. Empty if nothing was compared, or if the run's figures may be
/// wrong.
std::optional<ModelError> modelErrorOf(const TraceDocument& document);

/// Why a lane works longer or shorter in measured step `step` than another one; empty: than the lane of median busy
/// time. Empty if the analysis has no measured tasks of one of the lanes.
std::optional<LaneDifference> whySlow(const StepAnalysis& analysis, std::int32_t step, LaneId lane,
                                      std::optional<LaneId> other);

/// Why measured step `step`, that of the analysis, is slower or faster than the median step. Empty if the run has no
/// other step, or if times of different lanes cannot be compared. Cost: O(tasks log tasks) of both steps.
/// `history`: stepHistory() of the document.
std::optional<SlowStep> whySlow(const TraceDocument& document, const StepAnalysis& analysis, const StepHistory& history,
                                std::int32_t step);
}  // namespace pipescope
