#pragma once

#include "analysis/measured_steps.h"
#include "gui/document/trace_document.h"

#include <cstddef>

namespace pipescope {
/// Joining tasks takes about a microsecond each: of a run of more tasks only some steps are compared, evenly chosen.
inline constexpr std::size_t kMostComparedTasks = 500'000;

/// steps_to_compare() of a document with a measured timeline.
MeasuredSteps stepsToCompare(const TraceDocument& document);
/// Their slices. The store is read once.
Timeline timelineOf(const TimelineStore& store, const MeasuredSteps& steps);
/// All slices.
Timeline timelineOf(const TimelineStore& store);
/// Compares the measured half, if there is one, with its simulation, or says why not (compare_run()).
void compareWith(TraceDocument& document, const Simulation* simulation);
}  // namespace pipescope
