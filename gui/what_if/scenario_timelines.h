#pragma once

#include "gui/document/scenario.h"
#include "gui/timeline/time_ruler.h"
#include "gui/timeline/timeline_painter.h"

#include <QWidget>

#include <memory>
#include <vector>

namespace pipescope {
struct PinnedScenario {
    QString name;
    std::shared_ptr<const SimulatedScenario> simulated;
};

/// Small timelines of scenarios below each other on one time axis, so that a longer step has a longer picture. A ruler
/// is at the bottom.
class ScenarioTimelines : public QWidget {
    Q_OBJECT

public:
    explicit ScenarioTimelines(QWidget* parent = nullptr);
    /// Sets the scenarios, all of which can run.
    void setScenarios(std::vector<PinnedScenario> scenarios);
    /// Area of the k-th scenario's lanes. Its right edge is the end of the longest step.
    QRect lanesRect(std::size_t k) const;
    /// Pixel position of a time, the same for all timelines.
    double pixelAtTime(std::int64_t ns) const;
    /// Labels of the ruler, in widget pixels; none without a scenario.
    std::vector<RulerLabel> rulerLabels() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    int titleHeight() const { return fontMetrics().height() + 2; }
    int rulerHeight() const { return scenarios_.empty() ? 0 : fontMetrics().height() + 6; }
    QRectF rulerRect() const;
    Ruler ruler() const;
    void paintRuler(QPainter& painter) const;
    int slotHeight() const;
    std::int64_t longest() const;

    std::vector<PinnedScenario> scenarios_;
    std::vector<TimelinePainter> painters_;
};
}  // namespace pipescope
