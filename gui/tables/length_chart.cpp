#include "gui/tables/length_chart.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"

#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr int kChartMargin = 6;
constexpr double kLeastChartBar = 2;  // pixels: a single length is seen beside thousands

QString numberText(std::int64_t number) {
    return QLocale().toString(static_cast<qlonglong>(number));
}
}  // namespace

LengthChart::LengthChart(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setLengths({}, {});
}

void LengthChart::setLengths(const QString& name, std::vector<LengthBin> bins) {
    name_ = name;
    bins_ = std::move(bins);
    chosen_.reset();
    setAccessibleName(name_.isEmpty() ? tr("Durations") : tr("Durations of %1").arg(name_));
    setAccessibleDescription(
        bins_.empty() ? tr("no row is chosen")
                      : tr("%1 to %2").arg(formatDuration(bins_.front().from), formatDuration(bins_.back().to)));
    update();
}

QSize LengthChart::sizeHint() const {
    return {800, fontMetrics().height() * 14};  // of a picture of its own
}

QSize LengthChart::minimumSizeHint() const {
    return {fontMetrics().averageCharWidth() * 24, fontMetrics().height() * 4};
}

std::int64_t LengthChart::most() const {
    std::int64_t most = 1;
    for (const LengthBin& each : bins_) {
        most = std::max(most, each.count);
    }
    return most;
}

QRectF LengthChart::plot() const {
    const int line = fontMetrics().height();
    return QRectF(rect()).adjusted(kChartMargin, line + kChartMargin, -kChartMargin, -line - 4);
}

QRectF LengthChart::barOf(std::size_t bin) const {
    if (bin >= bins_.size()) {
        return {};
    }
    const QRectF in = plot();
    const double width = in.width() / static_cast<double>(bins_.size());
    const std::int64_t number = bins_[bin].count;
    const double height =
        number == 0 ? 0
                    : std::max(kLeastChartBar, in.height() * static_cast<double>(number) / static_cast<double>(most()));
    return {in.left() + width * static_cast<double>(bin), in.bottom() - height, width, height};
}

std::optional<std::size_t> LengthChart::binAt(const QPointF& position) const {
    const QRectF in = plot();
    if (bins_.empty() || position.x() < in.left() || position.x() >= in.right()) {
        return std::nullopt;
    }
    const auto bin =
        static_cast<std::size_t>((position.x() - in.left()) / in.width() * static_cast<double>(bins_.size()));
    return std::min(bin, bins_.size() - 1);
}

QString LengthChart::describe(std::size_t bin) const {
    const LengthBin& of = bins_.at(bin);
    const QString lengths = tr("%1 to %2").arg(formatDuration(of.from), formatDuration(of.to));
    const QString text =
        of.inside == of.count
            ? tr("%1: %2").arg(lengths, numberText(of.count))
            : tr("%1: %2, of which %3 in the counted range").arg(lengths, numberText(of.count), numberText(of.inside));
    return text + QLatin1Char('\n') + (whyNoPick_.isEmpty() ? tr("Click to find them.") : whyNoPick_);
}

void LengthChart::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    painter.fillRect(rect(), colors.paper);
    if (bins_.empty()) {
        painter.setPen(colors.faintText);
        painter.drawText(rect().adjusted(kChartMargin, 0, -kChartMargin, 0), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("Click a row to see how long its tasks take over all steps."));
        return;
    }
    const QColor all = colors.bubbleDot;
    const auto inside = QColor::fromRgb(okabe_ito::kBlue);
    for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
        const QRectF bar = barOf(bin).adjusted(0.5, 0, -0.5, 0);
        if (bins_[bin].count == 0) {
            continue;
        }
        painter.fillRect(bar, all);
        const double share = static_cast<double>(bins_[bin].inside) / static_cast<double>(bins_[bin].count);
        painter.fillRect(QRectF(bar.left(), bar.bottom() - bar.height() * share, bar.width(), bar.height() * share),
                         inside);
    }
    if (chosen_) {
        const QRectF bar = barOf(*chosen_);
        painter.setPen(QPen(colors.selection, 2));
        painter.drawRect(QRectF(bar.left(), plot().top(), bar.width(), plot().height()).adjusted(1, 0, -1, -1));
    }
    paintAxis(painter);
}

void LengthChart::paintAxis(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const QRectF in = plot();
    const int line = fontMetrics().height();
    painter.setPen(QPen(colors.grid, 1));
    painter.drawLine(in.bottomLeft(), in.bottomRight());
    painter.setPen(colors.text);
    const QRectF top(kChartMargin, 2, width() - 2 * kChartMargin, line);
    const QString number =
        chosen_ ? describe(*chosen_).section(QLatin1Char('\n'), 0, 0) : tr("highest bar: %1").arg(numberText(most()));
    const int room = static_cast<int>(top.width()) - fontMetrics().horizontalAdvance(number) - 2 * kChartMargin;
    painter.drawText(top, Qt::AlignLeft, fontMetrics().elidedText(name_, Qt::ElideRight, std::max(0, room)));
    painter.setPen(colors.faintText);
    painter.drawText(top, Qt::AlignRight, number);
    double lastRight = in.left() - kChartMargin;
    for (std::size_t border = 0; border <= bins_.size(); ++border) {
        const std::int64_t ns = border < bins_.size() ? bins_[border].from : bins_.back().to;
        const QString text = formatDuration(ns);
        const double width = fontMetrics().horizontalAdvance(text);
        const double x = in.left() + in.width() * static_cast<double>(border) / static_cast<double>(bins_.size());
        const double left = std::clamp(x - width / 2, in.left(), std::max(in.left(), in.right() - width));
        if (left > lastRight + 2 * kChartMargin || border == 0) {
            painter.drawText(QRectF(left, in.bottom() + 2, width + 1, line), Qt::AlignLeft, text);
            lastRight = left + width;
        }
    }
}

void LengthChart::choose(std::size_t bin) {
    chosen_ = bin;
    setAccessibleDescription(describe(bin));
    update();
}

void LengthChart::pick(std::size_t bin) {
    choose(bin);
    if (whyNoPick_.isEmpty() && bins_[bin].count > 0) {
        const LengthBin lengths = bins_[bin];
        Q_EMIT picked(lengths);
    }
}

void LengthChart::mousePressEvent(QMouseEvent* event) {
    const std::optional<std::size_t> bin = binAt(event->position());
    if (event->button() == Qt::LeftButton && bin) {
        pick(*bin);
        return;
    }
    QWidget::mousePressEvent(event);
}

void LengthChart::keyPressEvent(QKeyEvent* event) {
    const bool left = event->key() == Qt::Key_Left;
    if (!bins_.empty() && (left || event->key() == Qt::Key_Right) && event->modifiers() == Qt::NoModifier) {
        const std::size_t last = bins_.size() - 1;
        const std::size_t from = chosen_.value_or(left ? last : 0);
        choose(!chosen_ ? from : left ? from - (from > 0 ? 1 : 0) : std::min(last, from + 1));
    } else if (chosen_ && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)) {
        pick(*chosen_);
    } else {
        QWidget::keyPressEvent(event);
    }
}

bool LengthChart::event(QEvent* event) {
    const auto text = [this](const QPoint& at) {
        const std::optional<std::size_t> bin = binAt(at);
        return bin ? describe(*bin) : QString();
    };
    return answerToolTip(*event, *this, text) || QWidget::event(event);
}
}  // namespace pipescope
