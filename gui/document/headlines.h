#pragma once

#include "gui/document/trace_document.h"

#include <QString>

namespace pipescope {
/// The line above the measured timeline: file, model, and the figures of measured step `step`.
QString measuredHeadline(const TraceDocument& document, std::int32_t step);
/// The line above the simulated timeline: configuration, figures, and how far they are from the measured steps as
/// comparisonHeadline() judges them; without a comparison, from measured step `step`.
QString simulatedHeadline(const TraceDocument& document, std::int32_t step);
/// Means or medians over all compared steps, as Comparison::judged(); how far the trace is read while it is; empty
/// without a comparison.
QString comparisonHeadline(const TraceDocument& document);
}  // namespace pipescope
