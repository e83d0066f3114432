#include "gui/plan/pareto_chart.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"

#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

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

QString devicesText(std::size_t devices) {
    return formatCount(devices, ParetoChart::tr("device"), ParetoChart::tr("devices"));
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

QString describe(const ClusterCandidate& candidate, std::size_t rank) {
    const LayoutStep& step = candidate.step;
    return ParetoChart::tr("%1: %2 of type %3, %4, %5\nstep %6, peak memory %7\nrun %8, cost %9")
               .arg(rank + 1)
               .arg(devicesText(static_cast<std::size_t>(step.layout.devices())), QString::fromStdString(step.device),
                    QString::fromStdString(to_string(step.layout)),
                    QString::fromStdString(to_string(step.simulation.options.schedule)),
                    formatDuration(std::llround(step.step_ns())), formatBytes(highest_peak(step.simulation)),
                    formatHours(candidate.run_hours), formatCost(candidate.cost)) +
           ParetoChart::tr(", effective %1").arg(formatShare(candidate.checkpoints.effective));
}

ChartContent contentOf(const Plan& plan) {
    ChartContent content;
    for (std::size_t k = 0; k < plan.candidates.size(); ++k) {
        const PlanCandidate& each = plan.candidates[k];
        if (each.simulation.memory_unknown) {
            continue;  // it has no place on the axis of peaks
        }
        content.points.push_back(
            {static_cast<double>(each.simulation.step_time.count()), static_cast<double>(highest_peak(each.simulation)),
             each.pareto, each.simulation.feasible, each.simulation.lanes.size(), each.device_type, describe(each, k)});
    }
    const bool noise = !plan.candidates.empty() && plan.candidates.front().simulation.noise.has_value();
    content.x = {noise ? ParetoChart::tr("step time without noise") : ParetoChart::tr("step time"),
                 [](double ns) { return formatDuration(std::llround(ns)); }};
    content.y = {ParetoChart::tr("peak memory"), [](double bytes) { return formatBytes(std::llround(bytes)); }, true};
    content.widest = QStringLiteral("000 MiB");
    content.counted = lanesText;
    content.marks = ParetoChart::tr("filled: Pareto front, with number of lanes   hollow: dominated   ×: does not fit");
    return content;
}

/// A unit of time in which ticks are round.
struct RunUnit {
    double hours = 1;
    std::function<QString(double)> text;
};
RunUnit unitOf(const ClusterPlan& plan, bool wholeRun) {
    constexpr double kDay = 24;
    constexpr double kNs = 1 / 3600e9;
    double most = 0;
    for (const ClusterCandidate& each : plan.candidates) {
        most = std::max(most, wholeRun && std::isfinite(each.run_hours) ? each.run_hours : 0);
    }
    const auto inUnit = [](const char* unit) {
        return
            [unit](double value) { return QLocale().toString(value, 'g', 3) + QChar(QChar::Nbsp) + translated(unit); };
    };
    return most >= 2 * kDay ? RunUnit{kDay, inUnit("d")}
           : most >= 1      ? RunUnit{1, inUnit("h")}
                            : RunUnit{kNs, [](double ns) { return formatDuration(std::llround(ns)); }};
}

ChartContent contentOf(const ClusterPlan& plan, bool wholeRun) {
    const RunUnit unit = unitOf(plan, wholeRun);
    ChartContent content;
    for (std::size_t k = 0; k < plan.candidates.size(); ++k) {
        const ClusterCandidate& each = plan.candidates[k];
        // A type name has no colon; several types are one shape.
        const bool several = each.step.device.find(':') != std::string::npos;
        content.points.push_back({wholeRun ? each.run_hours / unit.hours : each.step.step_ns(), each.cost, each.pareto,
                                  true, static_cast<std::size_t>(each.step.layout.devices()),
                                  several ? ParetoChart::tr("several types").toStdString() : each.step.device,
                                  describe(each, k)});
    }
    content.x = {wholeRun ? ParetoChart::tr("time to the end of the run") : ParetoChart::tr("step time"), unit.text};
    content.y = {plan.priced ? ParetoChart::tr("cost") : ParetoChart::tr("device-hours"), formatCost};
    content.widest = QStringLiteral("0.00000");
    content.counted = devicesText;
    content.marks = ParetoChart::tr("filled: Pareto front, with number of devices   hollow: dominated");
    return content;
}

/// Tick values: 1, 2 or 5 times a power of ten, or further round numbers where those are fewer than two.
std::vector<double> ticks(double least, double most) {
    const auto all = [&](std::initializer_list<double> steps) {
        std::vector<double> found;
        for (double decade = std::pow(10, std::floor(std::log10(least))); decade <= most; decade *= 10) {
            for (const double step : steps) {
                if (decade * step >= least && decade * step <= most) {
                    found.push_back(decade * step);
                }
            }
        }
        return found;
    };
    std::vector<double> coarse = all({1, 2, 5});
    return coarse.size() < 2 ? all({1, 1.5, 2, 2.5, 3, 4, 5, 6, 8}) : coarse;
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
    return std::log(std::clamp(value, least, most) / least) / std::log(most / least);
}

ParetoChart::ParetoChart(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setPlaceholder(tr("Step time against peak memory of each candidate"));
    setContent({});
}

void ParetoChart::setPlaceholder(const QString& text) {
    placeholder_ = text;
    setAccessibleName(text);
    update();
}

void ParetoChart::setPlan(const std::shared_ptr<const Plan>& plan) {
    setContent(plan ? contentOf(*plan) : ChartContent{});
}

void ParetoChart::setPlan(const std::shared_ptr<const ClusterPlan>& plan, bool wholeRun) {
    setContent(plan ? contentOf(*plan, wholeRun) : ChartContent{});
}

void ParetoChart::setContent(ChartContent content) {
    content_ = std::move(content);
    selected_.reset();
    types_.clear();
    numbers_.clear();
    for (const ChartContent::Point& each : content_.points) {
        if (std::ranges::find(types_, each.type) == types_.end()) {
            types_.push_back(each.type);
        }
        numbers_.push_back(each.number);
    }
    std::ranges::sort(numbers_);
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    // A run that never ends is at the edge.
    const auto scaleOf = [&](double ChartContent::Point::*value, double margin, double smallest) {
        double least = std::numeric_limits<double>::infinity();
        double most = 0;
        for (const ChartContent::Point& each : content_.points) {
            if (std::isfinite(each.*value)) {
                least = std::min(least, std::max(smallest, each.*value));
                most = std::max(most, std::max(smallest, each.*value));
            }
        }
        return most > 0 ? Scale{least / margin, most * margin} : Scale{};
    };
    constexpr double kSmallest = 1e-12;  // of hours and costs; ns and bytes are whole numbers
    const double smallest = content_.y.doublings ? 1 : kSmallest;
    x_ = scaleOf(&ChartContent::Point::x, 1.1, smallest);
    y_ = scaleOf(&ChartContent::Point::y, 1.15, smallest);
    setAccessibleDescription(content_.points.empty() ? tr("no plan yet") : countOf(content_.points.size()));
    update();
}

void ParetoChart::select(std::optional<std::size_t> candidate) {
    selected_ = candidate;
    update();
}

QRectF ParetoChart::plotRect() const {
    const QFontMetrics metrics = fontMetrics();
    const double left = metrics.horizontalAdvance(content_.widest) + 10;
    const std::vector<LegendItem> items = legend();
    const double below = items.empty() ? 0 : items.back().at.y() - metrics.height() * 0.5;
    return QRectF(rect()).adjusted(left, std::max<double>(metrics.height(), below) + 6, -12, -2 * metrics.height() - 6);
}

std::size_t ParetoChart::shapeOf(const std::string& type) const {
    return static_cast<std::size_t>(std::ranges::find(types_, type) - types_.begin());
}

QColor ParetoChart::colorOf(std::size_t candidate) const {
    return colorOfNumber(content_.points.at(candidate).number);
}

QColor ParetoChart::colorOfNumber(std::size_t number) const {
    const auto at = std::ranges::lower_bound(numbers_, number) - numbers_.begin();
    return between(numbers_.size() < 2 ? 0 : static_cast<double>(at) / static_cast<double>(numbers_.size() - 1));
}

std::vector<ParetoChart::Label> ParetoChart::labels() const {
    std::vector<Label> labels;
    const QFontMetricsF metrics(font());
    for (std::size_t k = 0; numbers_.size() > 1 && k < content_.points.size(); ++k) {
        if (!content_.points[k].pareto) {
            continue;
        }
        const QString text = QString::number(content_.points[k].number);
        const QSizeF size(metrics.horizontalAdvance(text) + 1, metrics.height());
        QPointF at = pointOf(k) + QPointF(kSize + 3, -kSize - metrics.height());
        if (at.x() + size.width() > width()) {
            at.setX(pointOf(k).x() - kSize - 3 - size.width());
        }
        const QRectF rect(at, size);
        const bool covers =
            std::any_of(labels.begin(), labels.end(), [&](const Label& other) { return other.rect.intersects(rect); });
        if (!covers) {
            labels.push_back({k, rect, text});
        }
    }
    return labels;
}

QPointF ParetoChart::pointOf(std::size_t candidate) const {
    const ChartContent::Point& point = content_.points.at(candidate);
    const QRectF plot = plotRect();
    return {plot.left() + x_.place(point.x) * plot.width(), plot.bottom() - y_.place(point.y) * plot.height()};
}

std::optional<std::size_t> ParetoChart::candidateAt(const QPointF& position) const {
    std::optional<std::size_t> nearest;
    double best = kReach;
    for (std::size_t k = 0; k < content_.points.size(); ++k) {
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
    if (content_.points.empty()) {
        painter.setPen(colors.faintText);
        painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap, placeholder_);
        return;
    }
    painter.setRenderHint(QPainter::Antialiasing);
    paintAxes(painter);
    paintPoints(painter);
    paintLegend(painter);
}

std::vector<double> ParetoChart::xTicks() const {
    return twoAtLeast(ticks(x_.least, x_.most), x_.least, x_.most);
}

std::vector<double> ParetoChart::yTicks() const {
    if (!content_.y.doublings) {
        return twoAtLeast(ticks(y_.least, y_.most), y_.least, y_.most);
    }
    std::vector<double> doublings;
    for (double bytes = std::exp2(std::ceil(std::log2(y_.least))); bytes <= y_.most; bytes *= 2) {
        doublings.push_back(bytes);
    }
    return twoAtLeast(std::move(doublings), y_.least, y_.most);
}

void ParetoChart::paintAxes(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const QRectF plot = plotRect();
    const int line = fontMetrics().height();
    double lastRight = -1;
    for (const double value : xTicks()) {
        const double x = plot.left() + x_.place(value) * plot.width();
        painter.setPen(QPen(colors.grid, 1));
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
        const QString label = content_.x.text(value);
        const double width = fontMetrics().horizontalAdvance(label);
        if (x - width / 2 > lastRight + 6 && x + width / 2 < this->width()) {
            painter.setPen(colors.faintText);
            painter.drawText(QRectF(x - width / 2, plot.bottom() + 2, width, line), Qt::AlignCenter, label);
            lastRight = x + width / 2;
        }
    }
    double lastTop = height();
    for (const double value : yTicks()) {
        const double y = plot.bottom() - y_.place(value) * plot.height();
        painter.setPen(QPen(colors.grid, 1));
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
        if (y + line < lastTop) {
            painter.setPen(colors.faintText);
            painter.drawText(QRectF(0, y - line / 2.0, plot.left() - 6, line), Qt::AlignRight | Qt::AlignVCenter,
                             content_.y.text(value));
            lastTop = y - line / 2.0;
        }
    }
    painter.setPen(colors.text);
    painter.drawText(QRectF(plot.left(), plot.bottom() + line + 2, plot.width(), line), Qt::AlignCenter,
                     content_.x.name);
    painter.drawText(QRectF(4, 2, width() - 8, line), Qt::AlignLeft, content_.y.name);
}

void ParetoChart::paintPoints(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    // Draws the front last, so that nothing hides it.
    std::vector<std::size_t> order(content_.points.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
        order[k] = k;
    }
    std::stable_partition(order.begin(), order.end(), [&](std::size_t k) { return !content_.points[k].pareto; });
    for (const std::size_t k : order) {
        const ChartContent::Point& each = content_.points[k];
        const QPointF at = pointOf(k);
        const QColor color = colorOf(k);
        painter.setPen(QPen(each.pareto ? colors.text : color, 1));
        painter.setBrush(each.pareto ? QBrush(color) : QBrush(Qt::NoBrush));
        if (!each.feasible) {
            painter.setPen(QPen(colors.limit, 1));
            painter.drawLine(at + QPointF(-kSize, -kSize), at + QPointF(kSize, kSize));
            painter.drawLine(at + QPointF(-kSize, kSize), at + QPointF(kSize, -kSize));
        } else {
            painter.drawPolygon(shapeAt(at, shapeOf(each.type), each.pareto ? kSize + 1 : kSize - 1));
        }
    }
    painter.setPen(colors.text);
    for (const Label& label : labels()) {
        painter.drawText(label.rect, Qt::AlignCenter, label.text);
    }
    if (selected_ && *selected_ < content_.points.size()) {
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(colors.selection, 2));
        painter.drawEllipse(pointOf(*selected_), kSize * 2.2, kSize * 2.2);
    }
}

std::vector<ParetoChart::LegendItem> ParetoChart::legend() const {
    std::vector<LegendItem> items;
    constexpr int kLeastLines = 9;
    const int line = fontMetrics().height();
    if (height() < kLeastLines * line) {
        return items;  // it would cover the points, whose tool tips say all
    }
    const double left = fontMetrics().horizontalAdvance(content_.widest) + 10;
    QPointF at(left, line * 1.5 + 4);
    const auto add = [&](const QString& name, std::size_t shape, const QColor& fill) {
        const double width = fontMetrics().horizontalAdvance(name);
        if (at.x() > left && at.x() + 8 + width > this->width() - 4) {
            at = {left, at.y() + line};
        }
        items.push_back({name, shape, fill, at});
        at.rx() += width + 24;
    };
    if (numbers_.size() > 1) {
        const std::size_t middle = numbers_.size() / 2;
        for (const std::size_t k : numbers_.size() > 2 ? std::vector{std::size_t{0}, middle, numbers_.size() - 1}
                                                       : std::vector{std::size_t{0}, std::size_t{1}}) {
            add(content_.counted(numbers_[k]), 0, colorOfNumber(numbers_[k]));
        }
    }
    for (std::size_t k = 0; k < types_.size() && types_.size() > 1; ++k) {
        add(types_[k].empty() ? tr("as profiled") : QString::fromStdString(types_[k]), k, {});
    }
    return items;
}

void ParetoChart::paintLegend(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const int line = fontMetrics().height();
    for (const LegendItem& item : legend()) {
        painter.setPen(QPen(colors.text, 1));
        painter.setBrush(item.fill.isValid() ? QBrush(item.fill) : QBrush(Qt::NoBrush));
        painter.drawPolygon(shapeAt(item.at, item.shape, kSize));
        painter.drawText(item.at + QPointF(8, line / 3.0), item.name);
    }
    painter.setPen(colors.faintText);
    const double room = width() - fontMetrics().horizontalAdvance(content_.y.name) - 24;
    painter.drawText(QRectF(width() - 12 - room, 2, room, line), Qt::AlignRight,
                     fontMetrics().elidedText(content_.marks, Qt::ElideRight, static_cast<int>(room)));
}

void ParetoChart::pick(std::size_t candidate) {
    select(candidate);
    setAccessibleDescription(content_.points[candidate].about);
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
    const std::size_t count = content_.points.size();
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
        return candidate ? content_.points[*candidate].about : QString();
    };
    return answerToolTip(*event, *this, textAt) || QWidget::event(event);
}
}  // namespace pipescope
