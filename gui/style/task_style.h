#pragma once

#include "gui/style/pattern.h"
#include "schedule/task_key.h"

#include <QColor>
#include <QString>

class QPalette;

namespace pipescope {
struct KindStyle {
    QColor color;
    Pattern pattern = Pattern::plain;
    QString letter;  ///< before the micro-batch number on a bar: F3, R3, B3
    QString name;    ///< in legend and details
};

/// Each kind has its own pattern, except that copies and skips, whose bars are thin, share those of tasks.
const KindStyle& styleOf(TaskKind kind);
/// Black or white, whichever is more readable on `background`.
QColor textOn(const QColor& background);

/// Background colours of a timeline, for a light or dark palette.
struct TimelineColors {
    QColor paper;
    QColor lane;    ///< background of a lane outside its steps
    QColor bubble;  ///< idle time of a lane within a step
    QColor bubbleDot;
    QColor border;
    QColor grid;
    QColor text;
    QColor faintText;
    QColor selection;
    QColor limit;
    QColor critical;  ///< the critical path
};
bool isDark(const QPalette& palette);
TimelineColors timelineColors(const QPalette& palette);

/// "F3". Empty for kinds without a letter: "copy 3 forward" would never fit.
QString barLabel(const TaskKey& key);
/// "forward of micro-batch 3 on partition 1"
QString taskName(const TaskKey& key);
}  // namespace pipescope
