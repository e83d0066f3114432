#pragma once

#include "analysis/measured_steps.h"
#include "gui/document/trace_document.h"

#include <cstddef>

namespace pipescope {
/// Joining takes about a microsecond per task. Of a run with more tasks than this, only some steps are compared, evenly
/// chosen.
inline constexpr std::size_t kMostComparedTasks = 500'000;

/// steps_to_compare() of a document with a measured timeline.
MeasuredSteps stepsToCompare(const TraceDocument& document);
/// The slices of these steps. Reads the store once.
Timeline timelineOf(const TimelineStore& store, const MeasuredSteps& steps);
/// All slices of the store.
Timeline timelineOf(const TimelineStore& store);
/// Compares the measured half, if any, with its simulation, or stores the reason why it cannot (compare_run()).
/// Peaks come from the document's memory tracks.
void compareWith(TraceDocument& document, const Simulation* simulation);
}  // namespace pipescope
