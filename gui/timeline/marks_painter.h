#pragma once

#include "gui/timeline/timeline_marks.h"
#include "gui/timeline/timeline_painter.h"

class QPainter;

namespace pipescope {
// Draw TimelineMarks on a scene. The painter is clipped to the scene's lanes.

/// Draws what goes under the bars' labels: bubbles by cause, and tasks by lateness.
void paintUnderLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors);
/// Draws what goes on top: outlines of the other timeline, the critical path, and arrows.
void paintOverLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors);
}  // namespace pipescope
