#pragma once

#include "gui/timeline/timeline_marks.h"
#include "gui/timeline/timeline_painter.h"

class QPainter;

namespace pipescope {
// What TimelineMarks hold, drawn on a scene. The painter is clipped to the scene's lanes.

/// Bubbles by their cause, and tasks by their lateness: under the bars' labels.
void paintUnderLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors);
/// Outlines of the other timeline, critical path and arrows: over all.
void paintOverLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors);
}  // namespace pipescope
