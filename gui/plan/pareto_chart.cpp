#include "gui/plan/pareto_chart.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <array>
#include <cmath>

namespace pipescope {
namespace {
constexpr double kReach = 10;  // pixels around a click
constexpr double kSize = 4;    // radius of a mark in pixels

/// Colours from few lanes to many. Blue and orange are distinguishable in every common form of colour blindness.
QColor between(double share) {
    const auto few = QColor::fromRgb(okabe_ito::kBlue);
    const auto many = QColor::fromRgb(okabe_ito::kOrange);
    const auto channel = [share](int a, int b) { return static_cast<int>(std::lround(a + (b - a) * share)); };
    return {channel(few.red(), many.red()), channel(few.green(), many.green()), channel(few.blue(), many.blue())};
}

QPolygonF shapeAt(const QPointF& at, std::size_t shape, double radius) {
    static constexpr std::array<int, 6> kCorners{24, 4, 3, 4, 3, 5};  // circle, square, triangles, diamond, pentagon
    static constexpr std::array<double, 6> kTurns{0, 0.125, 0.25, 0, -0.25, 0.25};
    const std::size_t which = shape % kCorners.size();
    QPolygonF polygon;
    for (int k = 0; k < kCorners[which]; ++k) {
        const double angle = 2 * M_PI * (static_cast<double>(k) / kCorners[which] + kTurns[which]);
        polygon << at + QPointF(std::cos(angle), -std::sin(angle)) * radius * 1.2;
    }
    return polygon;
}

QString countOf(std::size_t candidates) {
    return formatCount(candidates, ParetoChart::tr("candidate"), ParetoChart::tr("candidates"));
}

QString lanesText(std::size_t lanes) {
    return formatCount(lanes, ParetoChart::tr("lane"), ParetoChart::tr("lanes"));
}

QString describe(const PlanCandidate& candidate, std::size_t rank) {
    const Simulation& simulation = candidate.simulation;
    return ParetoChart::tr("%1: %2 %3, %4, checkpoint %5, %6\nstep time %7, peak memory %8%9")
        .arg(rank + 1)
        .arg(lanesText(simulation.lanes.size()), QString::fromStdString(candidate.device_type))
        .arg(formatCount(simulation.micro_batches, ParetoChart::tr("micro-batch"), ParetoChart::tr("micro-batches")))
        .arg(QString::fromStdString(to_string(simulation.options.checkpoint)),
             QString::fromStdString(to_string(simulation.options.schedule)),
             formatDuration(expected_step(simulation).count()),
             simulation.memory_unknown ? ParetoChart::tr("unknown") : formatBytes(highest_peak(simulation)),
             simulation.feasible ? QString() : ParetoChart::tr(", does not fit"));
}

/// Tick values: 1, 2 or 5 times a power of the decade, about four in all.
std::vector<double> ticks(double least, double most) {
    std::vector<double> all;
    for (double decade = std::pow(10, std::floor(std::log10(least))); decade <= most; decade *= 10) {
        for (const double step : {1.0, 2.0, 5.0}) {
            if (decade * step >= least && decade * step <= most) {
                all.push_back(decade * step);
            }
        }
    }
    return all;
}

/// Close candidates may have fewer than two round numbers between them. An axis needs two values, so others replace
/// them.
std::vector<double> twoAtLeast(std::vector<double> round, double least, double most) {
    constexpr double kInset = 0.15;  // share of the axis, to leave room for the numbers
    const auto at = [&](double place) { return least * std::pow(most / least, place); };
    return round.size() < 2 ? std::vector<double>{at(kInset), at(1 - kInset)} : round;
}
}  // namespace

double ParetoChart::Scale::place(double value) const {
    return std::log(std::max(value, least) / least) / std::log(most / least);
}

ParetoChart::ParetoChart(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Candidates by step time and peak memory"));
}

void ParetoChart::setPlan(std::shared_ptr<const Plan> plan) {
    plan_ = std::move(plan);
    selected_.reset();
    devices_.clear();
    lanes_.clear();
    double leastTime = 0, mostTime = 0, leastBytes = 0, mostBytes = 0;
    for (std::size_t k = 0; plan_ && k < plan_->candidates.size(); ++k) {
        const PlanCandidate& each = plan_->candidates[k];
        if (std::find(devices_.begin(), devices_.end(), each.device_type) == devices_.end()) {
            devices_.push_back(each.device_type);
        }
        lanes_.push_back(each.simulation.lanes.size());
        const auto time = std::max(1.0, static_cast<double>(each.simulation.step_time.count()));
        const auto bytes = std::max(1.0, static_cast<double>(highest_peak(each.simulation)));
        leastTime = k == 0 ? time : std::min(leastTime, time);
        mostTime = std::max(mostTime, time);
        leastBytes = k == 0 ? bytes : std::min(leastBytes, bytes);
        mostBytes = std::max(mostBytes, bytes);
    }
    std::sort(lanes_.begin(), lanes_.end());
    lanes_.erase(std::unique(lanes_.begin(), lanes_.end()), lanes_.end());
    time_ = {std::max(1.0, leastTime) / 1.1, std::max(2.0, mostTime * 1.1)};
    memory_ = {std::max(1.0, leastBytes) / 1.15, std::max(2.0, mostBytes * 1.15)};
    setAccessibleDescription(plan_ ? countOf(plan_->candidates.size()) : tr("no plan yet"));
    update();
}

void ParetoChart::select(std::optional<std::size_t> candidate) {
    selected_ = candidate;
    update();
}

QRectF ParetoChart::plotRect() const {
    const QFontMetrics metrics = fontMetrics();
    const double left = metrics.horizontalAdvance(QStringLiteral("000 MiB")) + 10;
    const double legend = devices_.size() > 1 || lanes_.size() > 1 ? metrics.height() + 4 : 0;
    return QRectF(rect()).adjusted(left, metrics.height() + 6 + legend, -12, -2 * metrics.height() - 6);
}

std::size_t ParetoChart::shapeOf(const PlanCandidate& candidate) const {
    return static_cast<std::size_t>(std::find(devices_.begin(), devices_.end(), candidate.device_type) -
                                    devices_.begin());
}

QColor ParetoChart::colorOf(std::size_t candidate) const {
    return colorOfLanes(plan_->candidates.at(candidate).simulation.lanes.size());
}

QColor ParetoChart::colorOfLanes(std::size_t lanes) const {
    const auto at = std::lower_bound(lanes_.begin(), lanes_.end(), lanes) - lanes_.begin();
    return between(lanes_.size() < 2 ? 0 : static_cast<double>(at) / static_cast<double>(lanes_.size() - 1));
}

std::vector<ParetoChart::Label> ParetoChart::labels() const {
    std::vector<Label> labels;
    const QFontMetricsF metrics(font());
    for (std::size_t k = 0; plan_ && lanes_.size() > 1 && k < plan_->candidates.size(); ++k) {
        if (!plan_->candidates[k].pareto) {
            continue;
        }
        const QString text = QString::number(plan_->candidates[k].simulation.lanes.size());
        const QPointF at = pointOf(k) + QPointF(kSize + 3, -kSize - metrics.height());
        const QRectF rect(at, QSizeF(metrics.horizontalAdvance(text) + 1, metrics.height()));
        const bool covers =
            std::any_of(labels.begin(), labels.end(), [&](const Label& other) { return other.rect.intersects(rect); });
        if (!covers) {
            labels.push_back({k, rect, text});
        }
    }
    return labels;
}

QPointF ParetoChart::pointOf(std::size_t candidate) const {
    const Simulation& simulation = plan_->candidates.at(candidate).simulation;
    const QRectF plot = plotRect();
    const double x = time_.place(static_cast<double>(simulation.step_time.count()));
    const double y = memory_.place(static_cast<double>(highest_peak(simulation)));
    return {plot.left() + x * plot.width(), plot.bottom() - y * plot.height()};
}

std::optional<std::size_t> ParetoChart::candidateAt(const QPointF& position) const {
    std::optional<std::size_t> nearest;
    double best = kReach;
    for (std::size_t k = 0; plan_ && k < plan_->candidates.size(); ++k) {
        const QPointF apart = pointOf(k) - position;
        const double distance = std::hypot(apart.x(), apart.y());
        if (distance < best) {
            best = distance;
            nearest = k;
        }
    }
    return nearest;
}

void ParetoChart::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    painter.fillRect(rect(), colors.paper);
    if (!plan_ || plan_->candidates.empty()) {
        painter.setPen(colors.faintText);
        painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("Step time against peak memory of each candidate"));
        return;
    }
    painter.setRenderHint(QPainter::Antialiasing);
    paintAxes(painter);
    paintPoints(painter);
    paintLegend(painter);
}

std::vector<double> ParetoChart::timeTicks() const {
    return twoAtLeast(ticks(time_.least, time_.most), time_.least, time_.most);
}

std::vector<double> ParetoChart::memoryTicks() const {
    std::vector<double> doublings;
    for (double bytes = std::exp2(std::ceil(std::log2(memory_.least))); bytes <= memory_.most; bytes *= 2) {
        doublings.push_back(bytes);
    }
    return twoAtLeast(std::move(doublings), memory_.least, memory_.most);
}

void ParetoChart::paintAxes(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const QRectF plot = plotRect();
    const int line = fontMetrics().height();
    double lastRight = -1;
    for (const double time : timeTicks()) {
        const double x = plot.left() + time_.place(time) * plot.width();
        painter.setPen(QPen(colors.grid, 1));
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
        const QString label = formatDuration(std::llround(time));
        const double width = fontMetrics().horizontalAdvance(label);
        if (x - width / 2 > lastRight + 6 && x + width / 2 < this->width()) {
            painter.setPen(colors.faintText);
            painter.drawText(QRectF(x - width / 2, plot.bottom() + 2, width, line), Qt::AlignCenter, label);
            lastRight = x + width / 2;
        }
    }
    double lastTop = height();
    for (const double bytes : memoryTicks()) {
        const double y = plot.bottom() - memory_.place(bytes) * plot.height();
        painter.setPen(QPen(colors.grid, 1));
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
        if (y + line < lastTop) {
            painter.setPen(colors.faintText);
            painter.drawText(QRectF(0, y - line / 2.0, plot.left() - 6, line), Qt::AlignRight | Qt::AlignVCenter,
                             formatBytes(std::llround(bytes)));
            lastTop = y - line / 2.0;
        }
    }
    painter.setPen(colors.text);
    const bool noise = plan_->candidates.front().simulation.step_mean.has_value();
    painter.drawText(QRectF(plot.left(), plot.bottom() + line + 2, plot.width(), line), Qt::AlignCenter,
                     noise ? tr("step time without noise") : tr("step time"));
    painter.drawText(QRectF(4, 2, width() - 8, line), Qt::AlignLeft, tr("peak memory"));
}

void ParetoChart::paintPoints(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    // Draws the front last, so that nothing hides it.
    std::vector<std::size_t> order(plan_->candidates.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
        order[k] = k;
    }
    std::stable_partition(order.begin(), order.end(), [&](std::size_t k) { return !plan_->candidates[k].pareto; });
    for (const std::size_t k : order) {
        const PlanCandidate& each = plan_->candidates[k];
        const QPointF at = pointOf(k);
        const QColor color = colorOf(k);
        painter.setPen(QPen(each.pareto ? colors.text : color, 1));
        painter.setBrush(each.pareto ? QBrush(color) : QBrush(Qt::NoBrush));
        if (!each.simulation.feasible) {
            painter.setPen(QPen(colors.limit, 1));
            painter.drawLine(at + QPointF(-kSize, -kSize), at + QPointF(kSize, kSize));
            painter.drawLine(at + QPointF(-kSize, kSize), at + QPointF(kSize, -kSize));
        } else {
            painter.drawPolygon(shapeAt(at, shapeOf(each), each.pareto ? kSize + 1 : kSize - 1));
        }
    }
    painter.setPen(colors.text);
    for (const Label& label : labels()) {
        painter.drawText(label.rect, Qt::AlignCenter, label.text);
    }
    if (selected_ && *selected_ < plan_->candidates.size()) {
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(colors.selection, 2));
        painter.drawEllipse(pointOf(*selected_), kSize * 2.2, kSize * 2.2);
    }
}

void ParetoChart::paintLegend(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const int line = fontMetrics().height();
    QPointF at(plotRect().left(), line * 1.5 + 4);
    const auto add = [&](const QString& name, std::size_t shape, const QBrush& fill) {
        painter.setPen(QPen(colors.text, 1));
        painter.setBrush(fill);
        painter.drawPolygon(shapeAt(at, shape, kSize));
        painter.drawText(QPointF(at.x() + 8, at.y() + line / 3.0), name);
        at.rx() += fontMetrics().horizontalAdvance(name) + 24;
    };
    if (lanes_.size() > 1) {
        const std::size_t middle = lanes_.size() / 2;
        for (const std::size_t k : lanes_.size() > 2 ? std::vector{std::size_t{0}, middle, lanes_.size() - 1}
                                                     : std::vector{std::size_t{0}, std::size_t{1}}) {
            add(lanesText(lanes_[k]), 0, colorOfLanes(lanes_[k]));
        }
    }
    for (std::size_t k = 0; k < devices_.size() && devices_.size() > 1; ++k) {
        add(devices_[k].empty() ? tr("as profiled") : QString::fromStdString(devices_[k]), k, Qt::NoBrush);
    }
    const QString marks = tr("filled: Pareto front, with number of lanes   hollow: dominated   ×: does not fit");
    painter.setPen(colors.faintText);
    const double room = width() - fontMetrics().horizontalAdvance(tr("peak memory")) - 24;
    painter.drawText(QRectF(width() - 12 - room, 2, room, line), Qt::AlignRight,
                     fontMetrics().elidedText(marks, Qt::ElideRight, static_cast<int>(room)));
}

void ParetoChart::pick(std::size_t candidate) {
    select(candidate);
    setAccessibleDescription(describe(plan_->candidates[candidate], candidate));
    Q_EMIT picked(candidate);
}

void ParetoChart::mousePressEvent(QMouseEvent* event) {
    if (const std::optional<std::size_t> candidate = candidateAt(event->position())) {
        pick(*candidate);
    }
}

void ParetoChart::mouseDoubleClickEvent(QMouseEvent* event) {
    if (const std::optional<std::size_t> candidate = candidateAt(event->position())) {
        Q_EMIT activated(*candidate);
    }
}

void ParetoChart::keyPressEvent(QKeyEvent* event) {
    const std::size_t count = plan_ ? plan_->candidates.size() : 0;
    const bool forward = event->key() == Qt::Key_Right || event->key() == Qt::Key_Down;
    const bool back = event->key() == Qt::Key_Left || event->key() == Qt::Key_Up;
    const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
    if (count == 0 || !(forward || back || enter)) {
        QWidget::keyPressEvent(event);
    } else if (!enter) {
        const std::size_t from = selected_.value_or(forward ? count - 1 : 0);
        pick((from + (forward ? 1 : count - 1)) % count);
    } else if (selected_) {
        Q_EMIT activated(*selected_);
    }
}

bool ParetoChart::event(QEvent* event) {
    const auto textAt = [this](const QPoint& position) {
        const std::optional<std::size_t> candidate = candidateAt(position);
        return candidate ? describe(plan_->candidates[*candidate], *candidate) : QString();
    };
    return answerToolTip(*event, *this, textAt) || QWidget::event(event);
}
}  // namespace pipescope
