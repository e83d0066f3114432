#include "gui/timeline/bar_labels.h"

#include "gui/style/task_style.h"

#include <QFontInfo>
#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <vector>

namespace pipescope {
namespace {
constexpr double kMargin = 1;
constexpr double kFewBars = 0.1;          // this part of the bars may be too narrow
constexpr double kSmallestNumber = 0.8;   // of the font's size
constexpr double kSmallestUpright = 7.5;  // pixels of type; below it nobody can read

QFont uprightFont(const QFont& font, double width) {
    QFont small = font;
    const double pixels = std::min(std::floor(width), QFontMetricsF(font).ascent());
    small.setPixelSize(std::max(1, static_cast<int>(pixels)));  // a bar cut off by the edge may be narrower than 1
    return small;
}

/// The font for the number in a bar: a little smaller where that makes it fit.
QFont numberFont(const QFont& font, const QString& number, double width) {
    const double needed = QFontMetricsF(font).horizontalAdvance(number) + 2 * kMargin;
    if (needed <= width) {
        return font;
    }
    QFont small = font;
    const double pixels = QFontInfo(font).pixelSize();
    small.setPixelSize(static_cast<int>(std::max(kSmallestNumber * pixels, std::floor(pixels * width / needed))));
    return small;
}

/// The longest number of the kind decides, so that all of them get the same form.
LabelForm formFor(double width, double height, const QString& letter, Pattern pattern, int most, const QFont& font) {
    const QFontMetricsF metrics(font);
    const QString number = most >= 0 ? QString::number(most) : QString();
    if (metrics.horizontalAdvance(letter + number) + 2 * kMargin <= width && metrics.ascent() <= height) {
        return LabelForm::full;
    }
    if (number.isEmpty()) {
        return LabelForm::none;
    }
    if (QFontMetricsF(numberFont(font, number, width)).horizontalAdvance(number) <= width &&
        metrics.ascent() <= height) {
        return LabelForm::number;
    }
    if (width < kSmallestUpright || pattern != Pattern::plain) {  // small type on a hatch cannot be read
        return LabelForm::none;
    }
    return QFontMetricsF(uprightFont(font, width)).horizontalAdvance(number) <= height ? LabelForm::upright
                                                                                       : LabelForm::none;
}
}  // namespace

LabelForms chooseLabelForms(std::span<const VisibleBar> bars, const QFont& font) {
    std::array<std::vector<double>, kNumTaskKinds> widths;
    std::array<double, kNumTaskKinds> height{};
    std::array<int, kNumTaskKinds> most{};
    most.fill(-1);
    for (const VisibleBar& bar : bars) {
        const auto kind = static_cast<std::size_t>(bar.key.kind);
        widths[kind].push_back(bar.rect.width());
        height[kind] = bar.rect.height();
        most[kind] = std::max(most[kind], bar.key.micro_batch);
    }
    LabelForms forms;
    forms.fill(LabelForm::none);
    for (std::size_t kind = 0; kind < forms.size(); ++kind) {
        const QString& letter = styleOf(static_cast<TaskKind>(kind)).letter;
        if (widths[kind].empty() || letter.isEmpty()) {
            continue;
        }
        const auto narrow =
            widths[kind].begin() + static_cast<std::ptrdiff_t>(kFewBars * static_cast<double>(widths[kind].size()));
        std::nth_element(widths[kind].begin(), narrow, widths[kind].end());
        forms[kind] =
            formFor(*narrow, height[kind], letter, styleOf(static_cast<TaskKind>(kind)).pattern, most[kind], font);
    }
    return forms;
}

void paintLabel(QPainter& painter, const QRectF& bar, const TaskKey& key, LabelForm form) {
    if (form == LabelForm::none) {
        return;
    }
    const bool upright = form == LabelForm::upright;
    const QString label = form == LabelForm::full ? barLabel(key) : QString::number(key.micro_batch);
    const QFont font = upright                     ? uprightFont(painter.font(), bar.width())
                       : form == LabelForm::number ? numberFont(painter.font(), label, bar.width())
                                                   : painter.font();
    const QFontMetricsF metrics(font);
    const double width = metrics.horizontalAdvance(label);
    if (width > (upright ? bar.height() : bar.width())) {
        return;
    }
    const KindStyle& style = styleOf(key.kind);
    painter.save();
    painter.setFont(font);
    painter.translate(bar.center());
    if (upright) {
        painter.rotate(-90);
    }
    const QRectF plate(-width / 2 - 1, -metrics.ascent() / 2, width + 2, metrics.ascent());
    if (style.pattern != Pattern::plain) {  // so that the hatch does not cross the figures
        painter.fillRect(plate, style.color);
    }
    painter.setPen(textOn(style.color));
    painter.drawText(plate.adjusted(-4, -4, 4, 4), Qt::AlignCenter | Qt::TextSingleLine, label);
    painter.restore();
}
}  // namespace pipescope
