#pragma once

#include "analysis/bubble_causes.h"
#include "gui/timeline/axis_view.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/timeline_painter.h"
#include "gui/timeline/timeline_store.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A timeline on the shared time axis: ruler, lane names, slices.
class TimelineView : public AxisView {
    Q_OBJECT

public:
    TimelineView(Source source, TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show.
    void setStore(std::shared_ptr<const TimelineStore> store);
    const TimelineStore* store() const { return store_.get(); }
    /// Sets the device work of each lane's tasks, shown in rows below them; null: none.
    void setKernels(std::shared_ptr<const KernelStore> kernels);
    const KernelStore* kernels() const { return kernels_.get(); }
    /// Offset of the store's times: a simulated step starts at 0 and is drawn at the start of the measured one.
    void setShift(std::int64_t ns);
    std::int64_t shift() const { return shift_; }
    /// Sets order, height and visibility of the lanes.
    void setArrangement(const LaneArrangement& arrangement);
    const LaneArrangement& arrangement() const { return arrangement_; }
    /// Shows notes on ranges in a line below the ruler, if there are any.
    void setNotesShown(bool shown);
    /// Rectangles of the notes in that line, in viewport pixels, in the order of the axis' marks; those outside the
    /// view are empty.
    std::vector<QRectF> noteRects() const;
    /// Pixels of a row of tasks.
    int rowHeight() const;
    /// The rows that the view has room for, and those that it must not exceed, so that lanes of two views are equal.
    const RowFit& ownRows() const { return layout_.own; }
    void setMostRows(const RowFit& most);
    int topMargin() const override { return rulerHeight() + (showsNotes() ? fontMetrics().height() + 4 : 0); }
    /// Draws a line at the least step that any order of the tasks can have; empty: none.
    /// `ofPipeline`: the step is longer than what is drawn, and so is its bound.
    void setLowerBound(std::optional<Nanoseconds> bound, bool ofPipeline = false);
    QString lowerBoundText() const;
    /// Plate with that text. Empty if the line is not visible.
    QRectF rulerPlate() const override;
    std::int64_t stepStart() const;
    /// Sets the marks on top of the bars; null: none.
    void setMarks(std::shared_ptr<const TimelineMarks> marks);
    const TimelineMarks* marks() const { return marks_.get(); }
    /// Draws no bars of these kinds, and lets none be picked.
    void setHidden(const KindSet& kinds);
    /// Sets the function that gives a slice's tooltip as HTML.
    void setDescription(std::function<QString(SliceRef)> describe) { describe_ = std::move(describe); }
    /// Sets the function that gives a bubble's tooltip as HTML.
    void setBubbleDescription(std::function<QString(const Bubble&)> describe) { describeBubble_ = std::move(describe); }

    QRectF rectOf(SliceRef slice) const { return store_ ? sliceRect(scene(), slice) : QRectF(); }
    std::optional<SliceRef> sliceAt(const QPoint& position) const;
    /// The bubble of the analysed step at a position.
    std::optional<Bubble> bubbleAt(const QPoint& position) const;
    QRectF rectOf(const Bubble& bubble) const;
    std::optional<SliceRef> kernelAt(const QPoint& position) const;
    QRectF kernelRect(SliceRef kernel) const { return kernels_ ? sliceRect(kernelScene(), kernel) : QRectF(); }
    /// Rectangle of a lane in viewport pixels. Empty if the store has no such lane.
    QRect laneRect(LaneId lane) const;
    QString laneTitle(LaneId lane) const { return titleOf(store_->lanes().at(lane.index()), lane.index()); }
    /// Visible content of the lane, for screen readers.
    QString laneDescription(LaneId lane) const;
    /// Selects the slice `by` places later in the row of the selected one, or the first visible slice without a
    /// selection.
    void moveSelection(int by);
    std::vector<DrawnName> drawnNames() const override;
    /// The layout of the lanes as drawn, from the top of the lanes.
    const TimelineLayout& visibleLayout() const;
    void nameLanes();
    /// Scrolls vertically until the slice is visible. Does not move the time axis.
    void reveal(SliceRef slice);
    void revealLane(LaneId lane);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {300, topMargin() + 3 * kLowestTaskRow}; }

Q_SIGNALS:
    /// ownRows() may have changed.
    void laidOut();
    /// The user selected a slice, or cleared the selection.
    void picked(std::optional<pipescope::SliceRef> slice);
    /// The user clicked where the lane runs nothing in a step. `time` is the store's.
    void gapPicked(pipescope::LaneId lane, std::int64_t time);
    /// The user clicked on a lane's name, or beside its copies.
    void lanePicked(pipescope::LaneId lane, bool links);
    /// The user dragged a lane by its name to the place of another one.
    void laneDropped(pipescope::LaneId lane, pipescope::LaneId place);
    /// The user dragged a simulated task to another place of its row, with Alt and Shift: before the slice `before`, or
    /// behind the last one if there is no such slice.
    void taskDropped(pipescope::SliceRef task, std::uint32_t before);
    /// The user clicked on the header of a group.
    void groupPicked(const QString& name);

protected:
    void relayout() override;
    void hover(std::optional<QPoint> position) override;
    void click(const QPoint& position) override;
    /// Selects as a click does, but collapses no group.
    void rightClick(const QPoint& position) override;
    /// Snaps to the nearest edge of a task in the row below the pointer, within a few pixels.
    std::int64_t placeAt(const QPoint& position) const override;
    /// Esc takes back a task or lane that is being dragged.
    bool event(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    QString toolTipAt(const QPoint& position) const override;

private:
    TimeWindow ownWindow() const { return shifted(axis().window(), -shift_); }
    TimelineScene scene() const;
    void revealBand(LaneId lane, const Band& band);
    TimelineScene kernelScene() const;
    std::optional<SliceRef> storedAt(const TimelineStore& store, const std::optional<RowBand>& row,
                                     const QPoint& position) const;
    QString kernelToolTip(SliceRef kernel) const;
    void paintGutter(QPainter& painter) const;
    /// Shades the name of the selected lane, or the space beside its copies.
    void paintSelectedLane(QPainter& painter) const;
    /// Pixels below the top of the lanes.
    int layoutY(const QPoint& position) const { return position.y() - lanesRect().top(); }
    bool showsNotes() const;
    const TimeMark* noteAt(const QPoint& position) const;
    void paintNotes(QPainter& painter) const;
    bool isInGutter(const QPoint& position) const;
    void paintGroups(QPainter& painter, const TimelineLayout& layout) const;
    void paintDraggedLane(QPainter& painter, const TimelineLayout& layout) const;
    void paintLowerBound(QPainter& painter) const;
    /// The slice of the row that a task would run before if it were dropped here.
    std::uint32_t dropPlace(SliceRef task, const QPoint& position) const;
    void paintDraggedTask(QPainter& painter) const;
    /// Shows how busy each lane was in the measured range.
    void paintShares(QPainter& painter) const;

    Source source_;
    std::shared_ptr<const TimelineStore> store_;
    std::shared_ptr<const KernelStore> kernels_;
    std::int64_t shift_ = 0;
    std::shared_ptr<const TimelineMarks> marks_;
    KindSet hidden_;
    bool notesShown_ = false;
    bool hadNotes_ = false;
    LaneArrangement arrangement_;
    RowFit mostRows_;
    TimelineLayout layout_;                                  // before scrolling
    mutable std::shared_ptr<const TimelineLayout> visible_;  // scrolled by visibleScroll_; null: to be made anew
    mutable int visibleScroll_ = 0;
    struct LaneNames {
        QString full;
        QString brief;
    };
    std::vector<LaneNames> names_;  // by lane
    struct LaneDrag {
        LaneId lane;
        QPoint from;
        bool moved = false;
        std::optional<LaneId> over;
    };
    std::optional<LaneDrag> laneDrag_;
    struct TaskDrag {
        SliceRef task;
        QPoint from;
        std::optional<std::uint32_t> before = {};  // once moved
    };
    std::optional<TaskDrag> taskDrag_;
    std::optional<Nanoseconds> lowerBound_;
    bool boundsPipeline_ = false;
    TimelinePainter painter_;
    TimelinePainter kernelPainter_;
    std::function<QString(SliceRef)> describe_;
    std::function<QString(const Bubble&)> describeBubble_;
    std::optional<SliceRef> hovered_;
    std::optional<SliceRef> hoveredKernel_;
};

/// From now on, screen readers find a child for each lane of every TimelineView, with its name, position, and busy
/// share in the visible part. Repeated calls have no effect. Threading: the GUI thread.
void describeLanesToScreenReaders();
}  // namespace pipescope
