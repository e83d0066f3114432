#pragma once

#include "gui/document/step_history.h"

#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// The steps of a run side by side: a bar's height is the step's time, its pale part the bubble, a line the loss.
/// Warm-up steps are faint, slow ones stand out. A spike of the loss, or one that is no number, has a mark. A
/// click chooses a step. If there are more steps than pixels, a bar stands for several, from the fastest to the
/// slowest, which a click chooses. Hidden for less than two steps.
class StepStrip : public QWidget {
    Q_OBJECT

public:
    explicit StepStrip(QWidget* parent = nullptr);

    void setHistory(std::shared_ptr<const StepHistory> history);
    const StepHistory& history() const { return *history_; }
    /// Marks the step.
    void setStep(std::int32_t step);
    /// The user's choice.
    void setShown(bool shown);
    /// True if it is shown where there is room.
    bool isWanted() const { return shown_ && history_->steps.size() > 1; }
    /// Without room, as in a low window, the strip is hidden.
    void setRoom(bool room);
    /// Sets the width of the name column, so that names align with those of the views below.
    void setGutter(int width);
    /// The bar of a step, or of several; indices into the history, `end` excluded.
    struct Bar {
        std::size_t first = 0;
        std::size_t end = 0;
        QRectF rect;  ///< the whole column, in widget pixels
    };
    std::size_t numBars() const;
    Bar bar(std::size_t place) const;
    /// The bar that holds the step; empty if none does.
    std::optional<Bar> barOf(std::int32_t step) const;
    /// The median in one line, the fastest and the slowest step in another, and the losses if they are known; empty
    /// without steps.
    const QStringList& facts() const { return facts_; }
    /// The time at the top of the bars and zero at their bottom, and below bars the numbers of their steps, in widget
    /// pixels. Labels never overlap.
    struct AxisLabel {
        QRectF rect;
        QString text;
        bool isOfStep = false;
    };
    std::vector<AxisLabel> axisLabels() const;
    /// The point of a bar's loss; empty: it has none that is a number.
    std::optional<QPointF> lossPoint(std::size_t place) const;
    /// Marks a spike, or a loss that is no number.
    enum class LossMark { none, spike, no_number };
    LossMark lossMark(std::size_t place) const;
    /// Moves the choice, within the steps.
    void move(std::int64_t by);
    /// Chooses the step at this index of the history; empty: none.
    void goTo(std::optional<std::size_t> index);
    QSize sizeHint() const override;
    /// Returns a minimum height of 0, so that setRoom() alone decides whether the strip is shown.
    QSize minimumSizeHint() const override { return {100, 0}; }

Q_SIGNALS:
    void picked(std::int32_t step);

protected:
    bool event(QEvent* event) override;
    void changeEvent(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override { pickAt(*event); }
    void mouseMoveEvent(QMouseEvent* event) override { pickAt(*event); }
    void keyPressEvent(QKeyEvent* event) override;

private:
    QStringList makeFacts() const;
    QString lossFact() const;
    /// Pixels below the bars for the numbers of steps; 0 without room.
    int axisHeight() const;
    const StepEntry& lossStep(const Bar& bar) const;
    void measureFacts();
    QRect barsRect() const;
    std::optional<Bar> barAt(double x) const;
    std::size_t slowestOf(const Bar& bar) const;
    std::size_t fastestOf(const Bar& bar) const;
    /// The time at the top: that of the slowest step, but at most kTallest medians.
    double timeAtTop() const;
    void pickAt(const QMouseEvent& event);
    void paintBar(QPainter& painter, const Bar& bar) const;
    void paintLoss(QPainter& painter) const;
    void paintLossMark(QPainter& painter, const QPointF& at, LossMark mark) const;
    QString toolTipAt(const QPoint& position) const;
    void refresh();
    void showIfWanted();

    std::shared_ptr<const StepHistory> history_;
    // Facts of the history. They are kept because a run may have a hundred thousand steps, and painting must not read
    // all of them.
    QStringList facts_;
    int factsWidth_ = 0;
    double timeAtTop_ = 1;
    std::optional<std::size_t> chosen_;  // index into the history
    int gutter_ = 80;
    bool shown_ = true;
    bool room_ = true;
};
}  // namespace pipescope
