#pragma once

#include "cluster/cluster_plan.h"
#include "simulator/plan/planner.h"

#include <QColor>
#include <QWidget>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// The contents of a chart of candidates. Threading: a plain value.
struct ChartContent {
    struct Point {
        double x = 1;
        double y = 1;
        bool pareto = false;
        bool feasible = true;
        std::size_t number = 1;  ///< of lanes or devices: the colour
        std::string type;        ///< of device: the shape
        QString about;
    };
    struct Axis {
        QString name;
        std::function<QString(double)> text;
        bool doublings = false;  ///< ticks at powers of two instead of 1, 2 or 5 times powers of ten
    };
    std::vector<Point> points;
    Axis x;
    Axis y;
    QString widest;                               ///< text of a tick of y
    std::function<QString(std::size_t)> counted;  ///< "8 lanes"
    QString marks;                                ///< what filled, hollow and crossed marks mean
};

/// A plan's candidates on two logarithmic scales: step time and peak memory, or on a cluster the time to the end and
/// the cost. Filled marks are on the Pareto front, hollow ones are dominated, crossed ones exceed the memory. The front
/// also weighs lanes or devices (and of lanes the cost), so a candidate with few may be on it although another is
/// better in both. Colour shows the number of lanes or devices, which is also printed beside marks of the front. Shape
/// shows the device type.
class ParetoChart : public QWidget {
    Q_OBJECT

public:
    explicit ParetoChart(QWidget* parent = nullptr);

    /// Null: none.
    void setPlan(const std::shared_ptr<const Plan>& plan);
    /// `wholeRun`: by the time to the end, not by the step. Null: none.
    void setPlan(const std::shared_ptr<const ClusterPlan>& plan, bool wholeRun);
    /// Says what the empty chart will show.
    void setPlaceholder(const QString& text);
    /// Marks a candidate; nullopt clears the mark.
    void select(std::optional<std::size_t> candidate);
    std::optional<std::size_t> selected() const { return selected_; }
    QPointF pointOf(std::size_t candidate) const;
    QColor colorOf(std::size_t candidate) const;
    /// A number of lanes or devices printed beside the front. Labels that would overlap are omitted.
    struct Label {
        std::size_t candidate;
        QRectF rect;
        QString text;
    };
    std::vector<Label> labels() const;
    /// The nearest candidate within reach of a click.
    std::optional<std::size_t> candidateAt(const QPointF& position) const;
    /// Values on the axes, in ns (of a whole run: or hours or days) and bytes or cost; at least two each.
    std::vector<double> xTicks() const;
    std::vector<double> yTicks() const;
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
    struct LegendItem {
        QString name;
        std::size_t shape = 0;
        QColor fill;  ///< invalid: hollow
        QPointF at;
    };
    void setContent(ChartContent content);
    QRectF plotRect() const;
    QColor colorOfNumber(std::size_t number) const;
    std::size_t shapeOf(const std::string& type) const;
    /// Laid out in lines.
    std::vector<LegendItem> legend() const;
    void paintAxes(QPainter& painter) const;
    void paintPoints(QPainter& painter) const;
    void paintLegend(QPainter& painter) const;
    void pick(std::size_t candidate);

    ChartContent content_;
    QString placeholder_;
    std::optional<std::size_t> selected_;
    std::vector<std::string> types_;    // in the order of their first candidate
    std::vector<std::size_t> numbers_;  // ascending
    Scale x_;
    Scale y_;
};
}  // namespace pipescope
