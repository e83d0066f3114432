#include "gui/timeline/bar_labels.h"

#include "gui/style/task_style.h"

#include <QFontInfo>
#include <QFontMetricsF>
#include <QPaintEngine>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace pipescope {
namespace {
constexpr double kLabelMargin = 1;
constexpr double kPlate = 3;              // pixels beside a label without a pattern
constexpr double kFewBars = 0.1;          // share of the bars that may be too narrow
constexpr double kSmallestNumber = 0.8;   // relative to the font's size
constexpr double kSmallestUpright = 7.5;  // text height in pixels; smaller text is illegible

QFont uprightFont(const QFont& font, double width) {
    QFont small = font;
    const double pixels = std::min(std::floor(width), QFontMetricsF(font).ascent());
    small.setPixelSize(std::max(1, static_cast<int>(pixels)));  // a bar clipped by the edge may be narrower than 1
    return small;
}

/// The font for the number of a partition on top of a bar.
QFont partitionFont(const QFont& font) {
    constexpr double kSmaller = 0.85;
    QFont small = font;
    small.setPixelSize(std::max(1, static_cast<int>(kSmaller * QFontInfo(font).pixelSize())));
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

QString fullLabel(const VisibleBar& bar) {
    return bar.names_partition ? barLabelWithPartition(bar.key) : barLabel(bar.key);
}

/// `longest`: a bar with the longest numbers of its kind, so that all of them have the same form.
LabelForm formFor(double width, double height, const VisibleBar& longest, const QFont& font) {
    const QFontMetricsF metrics(font);
    if (metrics.horizontalAdvance(fullLabel(longest)) + 2 * kLabelMargin <= width && metrics.ascent() <= height) {
        return LabelForm::full;
    }
    if (longest.key.micro_batch < 0) {
        return LabelForm::none;
    }
    const QString number = QString::number(longest.key.micro_batch);
    if (QFontMetricsF(numberFont(font, number, width)).horizontalAdvance(number) <= width &&
        metrics.ascent() <= height) {
        return LabelForm::number;
    }
    const Pattern pattern = styleOf(longest.key.kind).pattern;
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
    std::array<VisibleBar, kNumShownKinds> longest{};
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
        VisibleBar& most = longest[kind];
        most.key.kind = bar.key.kind;
        most.key.micro_batch = std::max(most.key.micro_batch, bar.key.micro_batch);
        most.key.partition = std::max(most.key.partition, bar.names_partition ? bar.key.partition : -1);
        most.names_partition = most.names_partition || bar.names_partition;
    }
    LabelForms forms;
    forms.fill(LabelForm::none);
    for (std::size_t kind = 0; kind < forms.size(); ++kind) {
        if (widths[kind].empty() || styleOf(static_cast<TaskKind>(kind)).letter.isEmpty()) {
            continue;
        }
        const auto narrow =
            widths[kind].begin() + static_cast<std::ptrdiff_t>(kFewBars * static_cast<double>(widths[kind].size()));
        std::nth_element(widths[kind].begin(), narrow, widths[kind].end());
        forms[kind] = formFor(*narrow, height[kind], longest[kind], font);
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
    const double needed = metrics.horizontalAdvance(fullLabel(bar)) + 2 * kLabelMargin;
    return bar.rect.width() >= kRoom * needed ? LabelForm::full : form;
}

PartitionTop partitionTopOf(int rowHeight, const QFont& font, bool whole) {
    constexpr int kMargins = 8;  // above and below the label
    constexpr int kInset = 2;    // separates dark tops from a dark background
    constexpr int kPart = 5;     // of a row that has no room for a number
    const auto number = static_cast<int>(std::ceil(QFontMetricsF(partitionFont(font)).ascent())) + 1;
    const auto label = static_cast<int>(std::ceil(QFontMetricsF(font).ascent()));
    if (!whole && rowHeight >= kInset + number + label + kMargins) {
        return {kInset, number, true};
    }
    return {1, std::clamp(rowHeight / kPart, 2, 5), false};
}

/// How a label looks.
struct LabelPainter::Text {
    QString text;
    QFont font;
    QColor pen;
    QColor plate = {};  // behind the text, which keeps a hatch off it; invalid: none
    bool upright = false;
    double room = std::numeric_limits<double>::infinity();  // pixels along the text that the plate may take

    QSizeF size() const {
        const QFontMetricsF metrics(font);
        return {metrics.horizontalAdvance(text), metrics.ascent()};
    }
    /// Draws it centred on the origin.
    void draw(QPainter& painter) const {
        painter.setFont(font);
        if (upright) {
            painter.rotate(-90);
        }
        const QSizeF own = size();
        // Wider than the text: a line that ends at a number looks like a minus sign.
        const double width = std::min(own.width() + 2 * kPlate, room);
        const QRectF box(-width / 2, -own.height() / 2, width, own.height());
        if (plate.isValid()) {
            painter.fillRect(box, plate);
        }
        painter.setPen(pen);
        painter.drawText(box.adjusted(-8, -4, 8, 4), Qt::AlignCenter | Qt::TextSingleLine, text);
    }
};

namespace {
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

int LabelPainter::pixelSizeFor(const VisibleBar& bar, LabelForm form) const {
    const double width = bar.rect.width();
    switch (form) {
        case LabelForm::full:
        case LabelForm::none: return 0;
        case LabelForm::number: {  // slightly smaller if that makes it fit
            const double needed = digitsOf(bar.key.micro_batch) * digit_ + 2 * kLabelMargin;
            const double smaller = std::floor(pixels_ * width / needed);
            return needed <= width ? 0 : static_cast<int>(std::max(kSmallestNumber * pixels_, smaller));
        }
        case LabelForm::upright: return static_cast<int>(std::max(1.0, std::min(std::floor(width), ascent_)));
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

template <class MakeText>
const LabelPainter::Label& LabelPainter::labelFor(quint64 id, const QPainter& painter, const MakeText& makeText) {
    constexpr qsizetype kMostLabels = 8192;
    const double scale = isVector(painter) ? 1 : painter.device()->devicePixelRatioF();
    id = id << 12 | static_cast<quint64>(std::lround(scale * 16));
    const auto known = labels_.constFind(id);
    if (known != labels_.constEnd()) {
        return *known;
    }
    if (labels_.size() >= kMostLabels) {
        labels_.clear();
    }
    const Text text = makeText();
    Label made;
    made.size = text.upright ? text.size().transposed() : text.size();
    const QSizeF box = made.size + QSizeF(2 * kPlate, 2 * kPlate);
    made.image = QImage((box * scale).toSize() + QSize(1, 1), QImage::Format_ARGB32_Premultiplied);
    made.image.setDevicePixelRatio(scale);
    made.image.fill(Qt::transparent);
    QPainter on(&made.image);
    on.translate(std::floor(box.width() / 2), std::floor(box.height() / 2));
    text.draw(on);
    return *labels_.insert(id, made);
}

template <class MakeText>
void LabelPainter::draw(QPainter& painter, const QRectF& rect, const Label& label, const MakeText& makeText) {
    if (isVector(painter)) {
        painter.save();
        painter.translate(rect.center());
        Text text = makeText();  // files have no clips
        text.room = text.upright ? rect.height() : rect.width();
        text.draw(painter);
        painter.restore();
        return;
    }
    const QSizeF box = label.size + QSizeF(2 * kPlate, 2 * kPlate);
    const QPointF corner = rect.center() - QPointF(std::floor(box.width() / 2), std::floor(box.height() / 2));
    const QPoint place(static_cast<int>(std::round(corner.x())), static_cast<int>(std::round(corner.y())));
    const double beyond = std::max(0.0, label.size.width() - rect.width()) / 2 + 1;  // an upright number may be wider
    const QRect room(QPoint(static_cast<int>(std::ceil(rect.left() - beyond)), static_cast<int>(rect.top()) - 1),
                     QPoint(static_cast<int>(std::floor(rect.right() + beyond)) - 1, static_cast<int>(rect.bottom())));
    const QRect all(place, (QSizeF(label.image.size()) / label.image.devicePixelRatio()).toSize());
    if (room.contains(all)) {
        painter.drawImage(place, label.image);
        return;
    }
    const QRect part = all.intersected(room);
    const double scale = label.image.devicePixelRatio();
    painter.drawImage(QRectF(part), label.image,
                      QRectF(QPointF(part.topLeft() - place) * scale, QSizeF(part.size()) * scale));
}

void LabelPainter::paint(QPainter& painter, const VisibleBar& bar, LabelForm form) {
    if (form == LabelForm::none || (form != LabelForm::full && bar.key.micro_batch < 0)) {
        return;
    }
    const int size = pixelSizeFor(bar, form);
    const bool upright = form == LabelForm::upright;
    const auto makeText = [&] {
        const KindStyle& style = styleOf(bar.key.kind);
        const QString text = form == LabelForm::full ? fullLabel(bar) : QString::number(bar.key.micro_batch);
        return Text{text, sized(size), textOn(style.color), style.pattern != Pattern::plain ? style.color : QColor(),
                    upright};
    };
    const quint64 partition = bar.names_partition && form == LabelForm::full ? bar.key.partition + 1 : 0;
    const quint64 id =
        (((partition << 16 | static_cast<quint64>(bar.key.micro_batch + 1)) << 4 | static_cast<quint64>(bar.key.kind))
             << 4 |
         static_cast<quint64>(form))
            << 12 |
        static_cast<quint64>(size);
    const Label& label = labelFor(id, painter, makeText);
    if (label.size.width() > std::max(bar.rect.width(), 1.0) + (upright ? 4 : 0) ||
        (upright && label.size.height() > bar.rect.height())) {
        return;
    }
    draw(painter, bar.rect, label, makeText);
}

void LabelPainter::paintPartition(QPainter& painter, const QRectF& top, std::int32_t partition, const QColor& ground) {
    const QColor pen = textOn(ground);
    const auto makeText = [&] { return Text{QString::number(partition), partitionFont(font_), pen}; };
    constexpr quint64 kPartition = 15;  // no form of a bar's label
    const quint64 id = ((static_cast<quint64>(partition) << 1 | (pen == QColor(Qt::white) ? 1U : 0U)) << 4 | kPartition)
                       << 12;
    const Label& label = labelFor(id, painter, makeText);
    if (label.size.width() <= top.width()) {
        draw(painter, top, label, makeText);
    }
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
