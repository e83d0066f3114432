#pragma once

#include "gui/style/task_style.h"

#include <QFont>
#include <QFontMetricsF>
#include <QHash>
#include <QImage>
#include <QRectF>

#include <array>
#include <cstdint>
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
    bool names_partition = false;
};

/// Forms of a bar's label, from most to least detailed.
enum class LabelForm {
    full,     ///< "F3", or "5F3" if it names the partition
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

/// The top of bars on a lane of several partitions: shaded by partition, with its number if the row is high enough.
struct PartitionTop {
    int inset = 0;  ///< pixels of the bar above it
    int height = 0;
    bool named = false;

    int bottom() const { return inset + height; }
};
/// `whole`: the label needs the middle of the bar, so that the top has no room for a number.
PartitionTop partitionTopOf(int rowHeight, const QFont& font, bool whole);

/// The name of a range or kernel if it fits, or its last part, shortened in the middle: names differ at their ends.
/// Empty without room for some letters.
QString rangeNameIn(const QFontMetricsF& metrics, const std::string& name, double room);

/// Draws labels that fit into the visible parts of bars. Thousands of bars share a few hundred labels, so each label is
/// drawn once into an image and then copied. A vector device gets text. Threading: the GUI thread.
class LabelPainter {
public:
    /// Sets the font of the following labels.
    void begin(const QFont& font);
    void paint(QPainter& painter, const VisibleBar& bar, LabelForm form);
    /// The number of a partition on the top of its bar.
    void paintPartition(QPainter& painter, const QRectF& top, std::int32_t partition, const QColor& ground);

private:
    struct Label {
        QImage image;
        QSizeF size;  ///< of the text after rotation, in widget pixels
    };
    struct Text;
    /// 0: the font's own size.
    int pixelSizeFor(const VisibleBar& bar, LabelForm form) const;
    QFont sized(int pixelSize) const;
    /// The label with that number, of the text that `makeText` returns.
    template <class MakeText>
    const Label& labelFor(quint64 id, const QPainter& painter, const MakeText& makeText);
    template <class MakeText>
    void draw(QPainter& painter, const QRectF& rect, const Label& label, const MakeText& makeText);

    QFont font_;
    double digit_ = 0;  ///< width of a digit
    double ascent_ = 0;
    int pixels_ = 0;
    QHash<quint64, Label> labels_;
};
}  // namespace pipescope
