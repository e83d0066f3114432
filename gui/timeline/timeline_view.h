#pragma once

#include "analysis/bubble_causes.h"
#include "gui/timeline/axis_view.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/time_ruler.h"
#include "gui/timeline/timeline_painter.h"
#include "gui/timeline/timeline_store.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// One timeline on the shared time axis: ruler, lane names, slices.
class TimelineView : public AxisView {
    Q_OBJECT

public:
    TimelineView(Source source, TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show.
    void setStore(std::shared_ptr<const TimelineStore> store);
    const TimelineStore* store() const { return store_.get(); }
    /// What devices did for the tasks of each lane, in rows below them; null: nothing.
    void setKernels(std::shared_ptr<const KernelStore> kernels);
    const KernelStore* kernels() const { return kernels_.get(); }
    /// Added to the store's times: a simulated step starts at 0 and is drawn where the measured one started.
    void setShift(std::int64_t ns);
    std::int64_t shift() const { return shift_; }
    /// What stands on top of the bars; null: nothing.
    void setMarks(std::shared_ptr<const TimelineMarks> marks);
    const TimelineMarks* marks() const { return marks_.get(); }
    /// The text of a slice's tooltip, as HTML.
    void setDescription(std::function<QString(SliceRef)> describe) { describe_ = std::move(describe); }
    /// The text of a bubble's tooltip, as HTML.
    void setBubbleDescription(std::function<QString(const BubblePiece&)> describe) {
        describeBubble_ = std::move(describe);
    }

    QRectF rectOf(SliceRef slice) const;
    /// The plate on the ruler that tells the cursor's time, in viewport pixels; empty while no cursor is in view.
    QRectF cursorPlate() const;
    QString cursorText() const;
    std::optional<SliceRef> sliceAt(const QPoint& position) const;
    /// A bubble that is shaded by its cause.
    std::optional<BubblePiece> bubbleAt(const QPoint& position) const;
    /// The ruler's times that are drawn, each whole and apart from the others, in viewport pixels.
    struct RulerLabel {
        QRectF rect;
        QString text;
    };
    std::vector<RulerLabel> rulerLabels() const;
    /// Of the store of kernels.
    std::optional<SliceRef> kernelAt(const QPoint& position) const;
    QRectF kernelRect(SliceRef kernel) const;
    /// Of lanes, in viewport pixels; empty where the store has no such lane.
    QRect laneRect(LaneId lane) const;
    QString laneTitle(LaneId lane) const;
    /// What is in view of the lane, as a screen reader says it.
    QString laneDescription(LaneId lane) const;
    /// Picks the slice `by` places later on the row of the selected one; without one, the first that is visible.
    void moveSelection(int by);
    /// Scrolls up or down so that the slice is on screen; the time axis stays.
    void reveal(SliceRef slice);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

Q_SIGNALS:
    /// The user picked a slice, or nothing.
    void picked(std::optional<pipescope::SliceRef> slice);

protected:
    int topMargin() const override;
    void relayout() override;
    void hover(std::optional<QPoint> position) override;
    void click(const QPoint& position) override;
    /// The nearest edge of a task of the row below the pointer, if one is a few pixels away.
    std::int64_t placeAt(const QPoint& position) const override;
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;

private:
    TimeWindow ownWindow() const { return shifted(axis().window(), -shift_); }
    TimelineScene scene() const;
    TimelineScene kernelScene() const;
    std::optional<SliceRef> storedAt(const TimelineStore& store, const std::optional<RowBand>& row,
                                     const QPoint& position) const;
    QString kernelToolTip(SliceRef kernel) const;
    QString toolTipAt(const QPoint& position) const;
    Ruler ruler() const;
    void paintRuler(QPainter& painter) const;
    /// The cursor's time, on a plate over the ruler.
    void paintCursorTime(QPainter& painter) const;
    void paintGutter(QPainter& painter) const;
    /// How busy each lane was in the measured range.
    void paintShares(QPainter& painter) const;

    Source source_;
    std::shared_ptr<const TimelineStore> store_;
    std::shared_ptr<const KernelStore> kernels_;
    std::int64_t shift_ = 0;
    std::shared_ptr<const TimelineMarks> marks_;
    TimelineLayout layout_;
    TimelinePainter painter_;
    TimelinePainter kernelPainter_;
    std::function<QString(SliceRef)> describe_;
    std::function<QString(const BubblePiece&)> describeBubble_;
    std::optional<SliceRef> hovered_;
    std::optional<SliceRef> hoveredKernel_;
};
}  // namespace pipescope
