#pragma once

#include <QString>

namespace pipescope {
/// Arrangement of measured and simulated timelines on screen.
enum class CompareMode {
    side_by_side,  ///< one above the other
    overlay,       ///< simulated tasks as outlines over the measured ones
    difference,    ///< measured tasks, coloured by how late or early they were
};
/// side-by-side, overlay, difference, as on the command line.
QString nameOf(CompareMode mode);
/// Throws UsageError that lists the names.
CompareMode parseCompareMode(const QString& name);

/// Which points of the simulated and the measured step coincide on the axis.
enum class Alignment {
    first_task,  ///< the first forward of both steps
    step,        ///< the simulated start and the start of the training loop's step, before its first task
    task,        ///< the selected task and its twin; without a twin as first_task
};
/// first-task, step, task.
QString nameOf(Alignment alignment);
/// Throws UsageError that lists the names. A command line cannot name `task`: it has no selected task.
Alignment parseAlignment(const QString& name);
}  // namespace pipescope
