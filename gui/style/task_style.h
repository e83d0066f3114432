#pragma once

#include "gui/style/pattern.h"
#include "schedule/task_key.h"

#include <QColor>
#include <QString>

#include <vector>

class QPalette;

namespace pipescope {
struct KindStyle {
    QColor color;
    Pattern pattern = Pattern::plain;
    QString letter;  ///< before the micro-batch number on a bar: F3, R3, B3
    QString name;    ///< for legend and details
};

/// No two kinds have the same pattern, save that copies and skips, whose bars are thin, share those of tasks.
const KindStyle& styleOf(TaskKind kind);
/// Black or white, whichever reads better on `background`.
QColor textOn(const QColor& background);

/// The colours of a timeline's ground, light or dark like the palette they come from.
struct TimelineColors {
    QColor paper;
    QColor lane;    ///< ground of a lane outside its steps
    QColor bubble;  ///< a lane's time within a step without a task
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

/// "F3", "copy 3 forward" never fits a bar: empty for kinds without a letter.
QString barLabel(const TaskKey& key);
/// "forward of micro-batch 3 on partition 1"
QString taskName(const TaskKey& key);
}  // namespace pipescope
