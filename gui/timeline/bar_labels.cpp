#include "gui/timeline/bar_labels.h"

#include "gui/style/task_style.h"

#include <QFontInfo>
#include <QFontMetricsF>
#include <QPaintEngine>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <vector>

namespace pipescope {
namespace {
constexpr double kLabelMargin = 1;
constexpr double kFewBars = 0.1;          // share of the bars that may be too narrow
constexpr double kSmallestNumber = 0.8;   // relative to the font's size
constexpr double kSmallestUpright = 7.5;  // text height in pixels; smaller text is illegible

QFont uprightFont(const QFont& font, double width) {
    QFont small = font;
    const double pixels = std::min(std::floor(width), QFontMetricsF(font).ascent());
    small.setPixelSize(std::max(1, static_cast<int>(pixels)));  // a bar clipped by the edge may be narrower than 1
    return small;
}

/// The font for the number in a bar, slightly smaller if that makes it fit.
QFont numberFont(const QFont& font, const QString& number, double width) {
    const double needed = QFontMetricsF(font).horizontalAdvance(number) + 2 * kLabelMargin;
    if (needed <= width) {
        return font;
    }
    QFont small = font;
    const double pixels = QFontInfo(font).pixelSize();
    small.setPixelSize(static_cast<int>(std::max(kSmallestNumber * pixels, std::floor(pixels * width / needed))));
    return small;
}

/// Decided by the longest number of the kind, so that all its bars have the same form.
LabelForm formFor(double width, double height, const QString& letter, Pattern pattern, int most, const QFont& font) {
    const QFontMetricsF metrics(font);
    const QString number = most >= 0 ? QString::number(most) : QString();
    if (metrics.horizontalAdvance(letter + number) + 2 * kLabelMargin <= width && metrics.ascent() <= height) {
        return LabelForm::full;
    }
    if (number.isEmpty()) {
        return LabelForm::none;
    }
    if (QFontMetricsF(numberFont(font, number, width)).horizontalAdvance(number) <= width &&
        metrics.ascent() <= height) {
        return LabelForm::number;
    }
    const bool quiet = pattern == Pattern::plain || pattern == Pattern::lined || pattern == Pattern::dashed;
    if (width < kSmallestUpright || !quiet) {  // small text on a hatch is illegible
        return LabelForm::none;
    }
    return QFontMetricsF(uprightFont(font, width)).horizontalAdvance(number) <= height ? LabelForm::upright
                                                                                       : LabelForm::none;
}
}  // namespace

LabelForms chooseLabelForms(std::span<const VisibleBar> bars, const QFont& font) {
    std::array<std::vector<double>, kNumShownKinds> widths;
    std::array<double, kNumShownKinds> height{};
    std::array<int, kNumShownKinds> most{};
    most.fill(-1);
    std::array<bool, kNumShownKinds> has_whole{};
    for (const VisibleBar& bar : bars) {
        has_whole[static_cast<std::size_t>(bar.key.kind)] |= !bar.is_cut;
    }
    for (const VisibleBar& bar : bars) {
        const auto kind = static_cast<std::size_t>(bar.key.kind);
        if (bar.is_cut && has_whole[kind]) {
            continue;
        }
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

LabelForm labelFormOf(const VisibleBar& bar, const LabelForms& forms, const QFontMetricsF& metrics) {
    constexpr double kRoom = 2;        // times the label's width
    constexpr double kLeastWide = 32;  // pixels; saves measuring the labels of low forms
    const LabelForm form = forms[static_cast<std::size_t>(bar.key.kind)];
    if (form == LabelForm::full || bar.rect.width() < kLeastWide || metrics.ascent() > bar.rect.height() ||
        styleOf(bar.key.kind).letter.isEmpty()) {
        return form;
    }
    const double needed = metrics.horizontalAdvance(barLabel(bar.key)) + 2 * kLabelMargin;
    return bar.rect.width() >= kRoom * needed ? LabelForm::full : form;
}

namespace {
QString labelOf(const TaskKey& key, LabelForm form) {
    return form == LabelForm::full ? barLabel(key) : QString::number(key.micro_batch);
}

/// Draws the label centred on the origin.
void drawLabel(QPainter& painter, const QString& label, const TaskKey& key, LabelForm form) {
    const QFontMetricsF metrics(painter.font());
    const double width = metrics.horizontalAdvance(label);
    const KindStyle& style = styleOf(key.kind);
    if (form == LabelForm::upright) {
        painter.rotate(-90);
    }
    const QRectF plate(-width / 2 - 1, -metrics.ascent() / 2, width + 2, metrics.ascent());
    if (style.pattern != Pattern::plain) {  // keeps the hatch off the text
        painter.fillRect(plate, style.color);
    }
    painter.setPen(textOn(style.color));
    painter.drawText(plate.adjusted(-4, -4, 4, 4), Qt::AlignCenter | Qt::TextSingleLine, label);
}

int digitsOf(std::int32_t number) {
    int digits = 1;
    for (; number >= 10; number /= 10) {
        ++digits;
    }
    return digits;
}
}  // namespace

void LabelPainter::begin(const QFont& font) {
    if (font == font_ && pixels_ > 0) {
        return;
    }
    font_ = font;
    const QFontMetricsF metrics(font);
    digit_ = metrics.horizontalAdvance(QLatin1Char('8'));
    ascent_ = metrics.ascent();
    pixels_ = QFontInfo(font).pixelSize();
    labels_.clear();
}

int LabelPainter::pixelSizeFor(const QRectF& bar, const TaskKey& key, LabelForm form) const {
    switch (form) {
        case LabelForm::full:
        case LabelForm::none: return 0;
        case LabelForm::number: {  // slightly smaller if that makes it fit
            const double needed = digitsOf(key.micro_batch) * digit_ + 2 * kLabelMargin;
            const double smaller = std::floor(pixels_ * bar.width() / needed);
            return needed <= bar.width() ? 0 : static_cast<int>(std::max(kSmallestNumber * pixels_, smaller));
        }
        case LabelForm::upright: return static_cast<int>(std::max(1.0, std::min(std::floor(bar.width()), ascent_)));
    }
    return 0;
}

QFont LabelPainter::sized(int pixelSize) const {
    QFont font = font_;
    if (pixelSize > 0) {
        font.setPixelSize(pixelSize);
    }
    return font;
}

const LabelPainter::Label& LabelPainter::labelFor(const TaskKey& key, LabelForm form, int pixelSize, double scale) {
    constexpr qsizetype kMostLabels = 8192;
    const auto id = ((static_cast<quint64>(key.micro_batch + 1) << 4 | static_cast<quint64>(key.kind)) << 24) |
                    (static_cast<quint64>(form) << 20) | (static_cast<quint64>(pixelSize) << 8) |
                    static_cast<quint64>(std::lround(scale * 16));
    const auto known = labels_.constFind(id);
    if (known != labels_.constEnd()) {
        return *known;
    }
    if (labels_.size() >= kMostLabels) {
        labels_.clear();
    }
    const QString text = labelOf(key, form);
    const QFont font = sized(pixelSize);
    const QFontMetricsF metrics(font);
    Label made;
    made.size = QSizeF(metrics.horizontalAdvance(text), metrics.ascent());
    if (form == LabelForm::upright) {
        made.size.transpose();
    }
    const QSizeF box = made.size + QSizeF(6, 6);
    made.image = QImage((box * scale).toSize() + QSize(1, 1), QImage::Format_ARGB32_Premultiplied);
    made.image.setDevicePixelRatio(scale);
    made.image.fill(Qt::transparent);
    QPainter painter(&made.image);
    painter.setFont(font);
    painter.translate(std::floor(box.width() / 2), std::floor(box.height() / 2));
    drawLabel(painter, text, key, form);
    return *labels_.insert(id, made);
}

void LabelPainter::paint(QPainter& painter, const QRectF& bar, const TaskKey& key, LabelForm form) {
    if (form == LabelForm::none || (form != LabelForm::full && key.micro_batch < 0)) {
        return;
    }
    const int size = pixelSizeFor(bar, key, form);
    const Label& label = labelFor(key, form, size, isVector(painter) ? 1 : painter.device()->devicePixelRatioF());
    if (label.size.width() > std::max(bar.width(), 1.0) + (form == LabelForm::upright ? 4 : 0) ||
        (form == LabelForm::upright && label.size.height() > bar.height())) {
        return;
    }
    if (isVector(painter)) {
        painter.save();
        painter.setFont(sized(size));
        painter.translate(bar.center());
        drawLabel(painter, labelOf(key, form), key, form);
        painter.restore();
        return;
    }
    const QSizeF box = label.size + QSizeF(6, 6);
    const QPointF corner = bar.center() - QPointF(std::floor(box.width() / 2), std::floor(box.height() / 2));
    painter.drawImage(QPointF(std::round(corner.x()), std::round(corner.y())), label.image);
}

bool isVector(const QPainter& painter) {
    const QPaintEngine::Type type = painter.paintEngine()->type();
    return type == QPaintEngine::SVG || type == QPaintEngine::Pdf || type == QPaintEngine::Picture;
}

QString rangeNameIn(const QFontMetricsF& metrics, const std::string& name, double room) {
    constexpr qsizetype kFewestLetters = 4;  // of a shortened name, with its dots
    constexpr double kNarrowestLetter = 2;   // pixels: names of kernels have thousands, which take long to measure
    if (static_cast<double>(name.size()) * kNarrowestLetter <= room) {
        const QString whole = QString::fromStdString(name);
        if (metrics.horizontalAdvance(whole) <= room) {
            return whole;
        }
    }
    const std::string_view last = lastPartOf(name);
    const QString part = QString::fromUtf8(last.data(), static_cast<qsizetype>(last.size()));
    const QString text = metrics.elidedText(part, Qt::ElideMiddle, room);
    // Two letters tell a short name, whose letters may be wide: a CJK one, or % signs.
    const bool tells =
        text.size() >= kFewestLetters || (text.size() == kFewestLetters - 1 && 3 * (text.size() - 1) >= part.size());
    return text == part || tells ? text : QString();
}
}  // namespace pipescope
