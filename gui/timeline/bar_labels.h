#pragma once

#include "schedule/task_key.h"

#include <QRectF>

#include <array>
#include <span>

class QFont;
class QPainter;

namespace pipescope {
/// A slice wide enough to be told apart, where it stands.
struct VisibleBar {
    QRectF rect;
    TaskKey key;
};

/// How a bar is labelled, richest first.
enum class LabelForm {
    full,     ///< "F3"
    number,   ///< "3"
    upright,  ///< "3" turned by 90 degrees, in small type
    none,
};
using LabelForms = std::array<LabelForm, kNumTaskKinds>;

/// One form for all bars of a kind: the richest that fits nearly all of them. A form per bar would mix "B4", "3" and
/// nothing among neighbours whose widths differ by a pixel.
LabelForms chooseLabelForms(std::span<const VisibleBar> bars, const QFont& font);

/// Writes the label into the visible part of a bar, if it fits there.
void paintLabel(QPainter& painter, const QRectF& bar, const TaskKey& key, LabelForm form);
}  // namespace pipescope
