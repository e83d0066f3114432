#pragma once

#include "gui/style/task_style.h"

#include <QFont>
#include <QFontMetricsF>
#include <QHash>
#include <QImage>
#include <QRectF>

#include <array>
#include <span>
#include <string>

class QPainter;

namespace pipescope {
/// True for SVG, PDF and similar devices, which keep text and rectangles as such.
bool isVector(const QPainter& painter);

/// A slice that is wide enough to be distinguished, with its position.
struct VisibleBar {
    QRectF rect;
    TaskKey key;          ///< with its shown kind
    bool is_cut = false;  ///< by an edge of the view, so that its width is not that of its kind
};

/// Forms of a bar's label, from most to least detailed.
enum class LabelForm {
    full,     ///< "F3"
    number,   ///< "3"
    upright,  ///< "3" rotated by 90 degrees, in small type
    none,
};
using LabelForms = std::array<LabelForm, kNumShownKinds>;

/// Chooses one form per kind: the most detailed that fits nearly all its bars. A form per bar would mix "B4", "3" and
/// no label among neighbours that differ by a pixel.
LabelForms chooseLabelForms(std::span<const VisibleBar> bars, const QFont& font);
/// The form of one bar: full if the label fills no more than half of it, otherwise that of its kind. `metrics`: of the
/// font of full labels.
LabelForm labelFormOf(const VisibleBar& bar, const LabelForms& forms, const QFontMetricsF& metrics);

/// The name of a range or kernel if it fits, or its last part, shortened in the middle: names differ at their ends.
/// Empty without room for some letters.
QString rangeNameIn(const QFontMetricsF& metrics, const std::string& name, double room);

/// Draws labels that fit into the visible parts of bars. Thousands of bars share a few hundred labels, so each label is
/// drawn once into an image and then copied. A vector device gets text. Threading: the GUI thread.
class LabelPainter {
public:
    /// Sets the font of the following labels.
    void begin(const QFont& font);
    void paint(QPainter& painter, const QRectF& bar, const TaskKey& key, LabelForm form);

private:
    struct Label {
        QImage image;
        QSizeF size;  ///< of the text after rotation, in widget pixels
    };
    /// 0: the font's own size.
    int pixelSizeFor(const QRectF& bar, const TaskKey& key, LabelForm form) const;
    QFont sized(int pixelSize) const;
    const Label& labelFor(const TaskKey& key, LabelForm form, int pixelSize, double scale);

    QFont font_;
    double digit_ = 0;  ///< width of a digit
    double ascent_ = 0;
    int pixels_ = 0;
    QHash<quint64, Label> labels_;
};
}  // namespace pipescope
