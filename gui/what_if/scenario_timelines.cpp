#include "gui/what_if/scenario_timelines.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <memory>

namespace pipescope {
namespace {
constexpr int kLeastHeight = 48;
constexpr int kMargin = 6;

/// Layout of the lanes' tasks without copies, for little height.
TimelineLayout compactLayout(const TimelineStore& store, int height) {
    TimelineLayout layout;
    int rows = 0;
    for (const StoredRow& row : store.rows()) {
        rows += row.copies ? 0 : 1;
    }
    int placed = 0;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& stored = store.rows()[row];
        if (stored.copies) {
            continue;
        }
        const int top = placed * height / rows;
        const int bottom = ++placed * height / rows;
        const int gap = bottom - top > 4 ? 1 : 0;
        const Band band{top, std::max(1, bottom - top - gap)};
        layout.lanes.push_back({stored.lane, band, {{row, band}}});
    }
    layout.height = height;
    return layout;
}
}  // namespace

ScenarioTimelines::ScenarioTimelines(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Timelines of the pinned scenarios, on one time axis"));
}

void ScenarioTimelines::setScenarios(std::vector<PinnedScenario> scenarios) {
    scenarios_ = std::move(scenarios);
    painters_.assign(scenarios_.size(), TimelinePainter(timelineColors(palette())));
    QStringList texts;
    for (const PinnedScenario& each : scenarios_) {
        texts
            << tr("%1: step time %2").arg(each.name, formatDuration(expected_step(each.simulated->simulation).count()));
    }
    setAccessibleDescription(texts.join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

int ScenarioTimelines::slotHeight() const {
    return scenarios_.empty()
               ? height()
               : std::max(kLeastHeight, (height() - rulerHeight()) / static_cast<int>(scenarios_.size()));
}

QSize ScenarioTimelines::sizeHint() const {
    return {400, static_cast<int>(std::max<std::size_t>(1, scenarios_.size())) * 2 * kLeastHeight + rulerHeight()};
}

QSize ScenarioTimelines::minimumSizeHint() const {
    return {160, static_cast<int>(std::max<std::size_t>(1, scenarios_.size())) * kLeastHeight + rulerHeight()};
}

std::int64_t ScenarioTimelines::longest() const {
    std::int64_t longest = 1;
    for (const PinnedScenario& each : scenarios_) {
        longest = std::max(longest, each.simulated->timeline->range().end);
    }
    return longest;
}

QRect ScenarioTimelines::lanesRect(std::size_t k) const {
    const int top = static_cast<int>(k) * slotHeight() + titleHeight();
    return {kMargin, top, std::max(1, width() - 2 * kMargin), std::max(1, slotHeight() - titleHeight() - 4)};
}

double ScenarioTimelines::pixelAtTime(std::int64_t ns) const {
    const QRect lanes = lanesRect(0);
    return lanes.left() + static_cast<double>(ns) / static_cast<double>(longest()) * lanes.width();
}

QRectF ScenarioTimelines::rulerRect() const {
    const QRect lanes = lanesRect(0);
    const int top = std::min(static_cast<int>(scenarios_.size()) * slotHeight(), height() - rulerHeight());
    return QRectF(lanes.left(), top, lanes.width() + kMargin, rulerHeight());
}

Ruler ScenarioTimelines::ruler() const {
    return makeRuler(windowOf({0, longest()}), lanesRect(0).width(), 0, labelSpacing(QFontMetricsF(font())));
}

std::vector<RulerLabel> ScenarioTimelines::rulerLabels() const {
    return scenarios_.empty() ? std::vector<RulerLabel>()
                              : placedLabels(ruler(), QFontMetricsF(font()), rulerRect().adjusted(0, 4, 0, 0));
}

void ScenarioTimelines::paintRuler(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const QRectF area = rulerRect();
    painter.fillRect(QRectF(0, area.top(), width(), area.height()), colors.paper);  // over lanes if room is short
    painter.setPen(QPen(colors.faintText, 0));
    for (const RulerTick& tick : ruler().ticks) {
        const double x = std::floor(area.left() + tick.x) + 0.5;
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.top() + (tick.label.isEmpty() ? 3 : 8)));
    }
    painter.setPen(colors.text);
    for (const RulerLabel& label : rulerLabels()) {
        painter.drawText(label.rect, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, label.text);
    }
}

void ScenarioTimelines::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    painter.fillRect(rect(), colors.paper);
    for (std::size_t k = 0; k < scenarios_.size(); ++k) {
        const QRect lanes = lanesRect(k);
        const SimulatedScenario& simulated = *scenarios_[k].simulated;
        const StepFigures figures = expected_figures(simulated.simulation);
        const Nanoseconds after = simulated.simulation.after_pipeline;
        const QString facts =
            after.count() > 0
                ? tr("%1 · step %2, its pipeline %3 · bubble %4")
                      .arg(scenarios_[k].name, formatDuration(figures.step.count()),
                           formatDuration((figures.step - after).count()), formatShare(figures.bubble))
                : tr("%1 · step %2 · bubble %3")
                      .arg(scenarios_[k].name, formatDuration(figures.step.count()), formatShare(figures.bubble));
        painter.setPen(colors.text);
        painter.drawText(QRect(lanes.left(), lanes.top() - titleHeight(), lanes.width(), titleHeight()),
                         Qt::AlignLeft | Qt::AlignVCenter,
                         fontMetrics().elidedText(facts, Qt::ElideRight, lanes.width()));
        TimelineScene scene;
        scene.store = simulated.timeline.get();
        scene.window = windowOf({0, longest()});
        scene.layout = std::make_shared<const TimelineLayout>(compactLayout(*simulated.timeline, lanes.height()));
        scene.lanes = lanes;
        painters_[k].paint(painter, scene);
        // Marks the end of the pipeline, for comparison.
        const double end = pixelAtTime(simulated.timeline->range().end);
        painter.setPen(QPen(colors.text, 1, Qt::DashLine));
        painter.drawLine(QPointF(end, lanes.top()), QPointF(end, lanes.bottom()));
    }
    if (!scenarios_.empty()) {
        paintRuler(painter);
    }
}

void ScenarioTimelines::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        painters_.assign(scenarios_.size(), TimelinePainter(timelineColors(palette())));
    }
}
}  // namespace pipescope
