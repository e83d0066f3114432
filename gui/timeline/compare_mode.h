#pragma once

#include <QString>

namespace pipescope {
/// How measured and simulated stand to each other on screen.
enum class CompareMode {
    side_by_side,  ///< one above the other
    overlay,       ///< the simulated tasks as outlines over the measured ones
    difference,    ///< the measured tasks, coloured by how late or early each was
};
/// side-by-side, overlay, difference; as on the command line.
QString nameOf(CompareMode mode);
/// Throws UsageError that lists the names.
CompareMode parseCompareMode(const QString& name);

/// What of the simulated step stands where on the measured one.
enum class Alignment {
    first_task,  ///< its first forward at the first forward of the measured step
    step,        ///< its start at the start of the training loop's step, which the host begins before its first task
    task,        ///< the selected task at its twin; without one as first_task
};
/// first-task, step, task.
QString nameOf(Alignment alignment);
Alignment parseAlignment(const QString& name);
}  // namespace pipescope
