#pragma once

#include "simulator/planner.h"

#include <QColor>
#include <QPolygonF>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A plan's candidates by step time and peak memory, both on logarithmic scales: filled on the Pareto front, hollow
/// where another is better, crossed where they do not fit. The front also weighs lanes and cost, so a candidate of few
/// lanes may be on it although a wider one is quicker and leaner: colour tells the number of lanes, written beside
/// those of the front, and the shape tells the device type.
class ParetoChart : public QWidget {
    Q_OBJECT

public:
    explicit ParetoChart(QWidget* parent = nullptr);

    void setPlan(std::shared_ptr<const Plan> plan);
    /// Nothing: none is marked.
    void select(std::optional<std::size_t> candidate);
    QPointF pointOf(std::size_t candidate) const;
    QColor colorOf(std::size_t candidate) const;
    /// The numbers of lanes written beside the front; one that would cover another is left out.
    struct Label {
        std::size_t candidate;
        QRectF rect;
        QString text;
    };
    std::vector<Label> labels() const;
    /// The nearest candidate within reach of a click.
    std::optional<std::size_t> candidateAt(const QPointF& position) const;
    /// What is written at the axes, in ns and in bytes; two values at least.
    std::vector<double> timeTicks() const;
    std::vector<double> memoryTicks() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

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
