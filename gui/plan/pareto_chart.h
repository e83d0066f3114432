#pragma once

#include "simulator/planner.h"

#include <QColor>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A plan's candidates by step time and peak memory, on logarithmic scales. Filled marks are on the Pareto front,
/// hollow ones are dominated, crossed ones exceed the memory. The front also weighs lanes and cost, so a candidate with
/// few lanes may be on it although a wider one is faster and needs less memory. Colour shows the number of lanes, which
/// is also printed beside marks of the front. Shape shows the device type.
class ParetoChart : public QWidget {
    Q_OBJECT

public:
    explicit ParetoChart(QWidget* parent = nullptr);

    void setPlan(std::shared_ptr<const Plan> plan);
    /// Marks a candidate; nullopt clears the mark.
    void select(std::optional<std::size_t> candidate);
    QPointF pointOf(std::size_t candidate) const;
    QColor colorOf(std::size_t candidate) const;
    /// A number of lanes printed beside the front. Labels that would overlap are omitted.
    struct Label {
        std::size_t candidate;
        QRectF rect;
        QString text;
    };
    std::vector<Label> labels() const;
    /// The nearest candidate within reach of a click.
    std::optional<std::size_t> candidateAt(const QPointF& position) const;
    /// Values on the axes, in ns and bytes; at least two each.
    std::vector<double> timeTicks() const;
    std::vector<double> memoryTicks() const;
    QSize sizeHint() const override { return {300, 260}; }
    QSize minimumSizeHint() const override { return {180, 80}; }

Q_SIGNALS:
    void picked(std::size_t candidate);
    void activated(std::size_t candidate);

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

private:
    struct Scale {
        double least = 1;
        double most = 10;
        double place(double value) const;  ///< 0 to 1
    };
    QRectF plotRect() const;
    QColor colorOfLanes(std::size_t lanes) const;
    std::size_t shapeOf(const PlanCandidate& candidate) const;
    void paintAxes(QPainter& painter) const;
    void paintPoints(QPainter& painter) const;
    void paintLegend(QPainter& painter) const;
    void pick(std::size_t candidate);

    std::shared_ptr<const Plan> plan_;
    std::optional<std::size_t> selected_;
    std::vector<std::string> devices_;  // in the order of their first candidate
    std::vector<std::size_t> lanes_;    // ascending
    Scale time_;
    Scale memory_;
};
}  // namespace pipescope
