#pragma once

#include "schedule/task_key.h"

#include <QFont>
#include <QHash>
#include <QImage>
#include <QRectF>

#include <array>
#include <span>

class QPainter;

namespace pipescope {
/// SVG, PDF and the like, where text stays text and a rectangle a rectangle.
bool isVector(const QPainter& painter);

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

/// Writes labels into the visible parts of bars, where they fit. Thousands of bars share a few hundred labels, so each
/// is drawn once into an image and copied from then on; a vector device gets text.
/// Threading: the GUI thread.
class LabelPainter {
public:
    /// The font of the labels that follow.
    void begin(const QFont& font);
    void paint(QPainter& painter, const QRectF& bar, const TaskKey& key, LabelForm form);

private:
    struct Label {
        QImage image;
        QSizeF size;  ///< of the text, turned or not, in widget pixels
    };
    /// 0: the font's own size.
    int pixelSizeFor(const QRectF& bar, const TaskKey& key, LabelForm form) const;
    QFont sized(int pixelSize) const;
    const Label& labelFor(const TaskKey& key, LabelForm form, int pixelSize, double scale);

    QFont font_;
    double digit_ = 0;  ///< width of a figure
    double ascent_ = 0;
    int pixels_ = 0;
    QHash<quint64, Label> labels_;
};
}  // namespace pipescope
