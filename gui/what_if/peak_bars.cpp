#include "gui/what_if/peak_bars.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"
#include "gui/timeline/memory_view.h"
#include "gui/what_if/scenario_figures.h"
#include "simulator/plan/planner.h"

#include <QPainter>

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::size_t kMostLanesDrawn = 64;
constexpr double kLimitBeyond = 4;  // a limit at this multiple of the highest peak would leave nothing to see

const QColor kBar = QColor::fromRgb(0x56B4E9);
const QColor kOver = QColor::fromRgb(0xD55E00);

/// The simulated peak, or "–" if the profile does not say what layers hold.
QString shownPeak(const SimulatedScenario& scenario, std::size_t lane) {
    return scenario.simulation.memory_unknown ? unknownValue()
                                              : formatBytes(scenario.simulation.lanes[lane].peak_bytes);
}

QString laneText(const SimulatedScenario& scenario, std::size_t lane) {
    const SimulatedLane& each = scenario.simulation.lanes[lane];
    QString text = PeakBars::tr("lane %1: peak %2")
                       .arg(lane)
                       .arg(scenario.simulation.memory_unknown ? PeakBars::tr("unknown") : shownPeak(scenario, lane));
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        if (const Bytes bytes = each.peak[category]; bytes > 0) {
            text += QStringLiteral("\n  %1 %2").arg(nameOf(category), formatBytes(bytes));
        }
    }
    return text;
}
}  // namespace

PeakBars::PeakBars(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Peak memory of each lane"));
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void PeakBars::setScenario(std::shared_ptr<const SimulatedScenario> scenario) {
    const std::size_t before = numLanes();
    scenario_ = std::move(scenario);
    limits_ = scenario_ ? memory_limits_of(scenario_->scenario.options.hardware, static_cast<int>(numLanes()))
                        : std::vector<Bytes>();
    if (numLanes() != before) {
        updateGeometry();
    }
    QStringList lanes;
    for (std::size_t lane = 0; lane < numLanes(); ++lane) {
        lanes << laneText(*scenario_, lane).section(QLatin1Char('\n'), 0, 0);
    }
    setAccessibleDescription(lanes.join(QStringLiteral("; ")));
    update();
}

std::size_t PeakBars::numLanes() const {
    return scenario_ ? std::min(scenario_->simulation.lanes.size(), kMostLanesDrawn) : 0;
}

QSize PeakBars::sizeHint() const {
    return {240, static_cast<int>(std::max<std::size_t>(1, numLanes())) * rowHeight() + 4};
}

QRectF PeakBars::scaleRect() const {
    const double left = fontMetrics().horizontalAdvance(QString::number(numLanes())) + 8;
    const double right = fontMetrics().horizontalAdvance(QStringLiteral("▲ 00.0 GiB")) + 8;
    return {left, 2, std::max(10.0, width() - left - right), static_cast<double>(height() - 4)};
}

Bytes PeakBars::mostShown() const {
    const Bytes peak = std::max<Bytes>(1, highest_peak(scenario_->simulation));
    Bytes most = peak;
    for (const Bytes limit : limits_) {
        most = static_cast<double>(limit) > kLimitBeyond * static_cast<double>(peak) ? most : std::max(most, limit);
    }
    return most;
}

std::optional<double> PeakBars::limitX(std::size_t lane) const {
    if (lane >= limits_.size() || limits_[lane] > mostShown()) {
        return std::nullopt;
    }
    const Bytes limit = limits_[lane];
    return scaleRect().left() + scaleRect().width() * static_cast<double>(limit) / static_cast<double>(mostShown());
}

QRectF PeakBars::barOf(std::size_t lane) const {
    const QRectF scale = scaleRect();
    const double share = static_cast<double>(scenario_->simulation.lanes[lane].peak_bytes) /
                         static_cast<double>(std::max<Bytes>(1, mostShown()));
    return {scale.left(), scale.top() + static_cast<double>(lane) * rowHeight() + 1, scale.width() * share,
            rowHeight() - 2.0};
}

void PeakBars::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    for (std::size_t lane = 0; lane < numLanes(); ++lane) {
        const Bytes peak = scenario_->simulation.lanes[lane].peak_bytes;
        const bool over = lane < limits_.size() && peak > limits_[lane];
        const QRectF bar = barOf(lane);
        painter.fillRect(bar, over ? kOver : kBar);
        if (over) {
            painter.fillRect(bar, QBrush(colors.border, Qt::BDiagPattern));
        }
        painter.setPen(palette().color(QPalette::WindowText));
        painter.drawText(QRectF(0, bar.top(), scaleRect().left() - 4, bar.height()), Qt::AlignRight | Qt::AlignVCenter,
                         QString::number(lane));
        const double right = scaleRect().right() + 4;
        painter.drawText(QRectF(right, bar.top(), width() - right, bar.height()), Qt::AlignRight | Qt::AlignVCenter,
                         (over ? QStringLiteral("▲ ") : QString()) + shownPeak(*scenario_, lane));
    }
    painter.setPen(QPen(colors.limit, 2));
    for (std::size_t lane = 0; lane < numLanes(); ++lane) {
        if (const std::optional<double> x = limitX(lane)) {
            // A continuous line if all lanes have the same limit.
            const double top = lane == 0 ? 0 : barOf(lane).top() - 1;
            const double bottom = lane + 1 == numLanes() ? height() : barOf(lane).bottom() + 1;
            painter.drawLine(QPointF(*x, top), QPointF(*x, bottom));
        }
    }
}

bool PeakBars::event(QEvent* event) {
    const auto textAt = [this](const QPoint& position) {
        const auto lane = static_cast<std::size_t>(std::max(0, position.y() - 2) / rowHeight());
        return lane < numLanes() ? laneText(*scenario_, lane) : QString();
    };
    return answerToolTip(*event, *this, textAt) || QWidget::event(event);
}
}  // namespace pipescope
