#pragma once

#include "gui/document/trace_document.h"

#include <QString>
#include <QStringList>

namespace pipescope {
/// The line above the measured timeline: file, model, and the figures of measured step `step`.
QString measuredHeadline(const TraceDocument& document, std::int32_t step);
/// The line above the simulated timeline: configuration, figures, and their distance to the measured steps as in
/// comparisonHeadline(). Without a comparison, the distance to measured step `step`.
QString simulatedHeadline(const TraceDocument& document, std::int32_t step);
/// How bars name the partitions of lanes that run several. Empty if no lane does.
QString partitionLegend(const TraceDocument& document);
/// Means or medians over all compared steps, as in Comparison::judged(). While the trace is read, the progress. Empty
/// without a comparison.
QString comparisonHeadline(const TraceDocument& document);
/// Shorter and shorter headlines, for places without room. They keep the figures longest.
QStringList shorterHeadlines(const TraceDocument& document);
}  // namespace pipescope
