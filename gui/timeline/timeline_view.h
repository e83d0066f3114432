#pragma once

#include "analysis/bubble_causes.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/rows_view.h"
#include "gui/timeline/timeline_painter.h"
#include "gui/timeline/timeline_store.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A timeline on the shared time axis: ruler, lane names, slices.
class TimelineView : public RowsView {
    Q_OBJECT

public:
    TimelineView(Source source, TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show.
    void setStore(std::shared_ptr<const TimelineStore> store);
    const TimelineStore* store() const { return store_.get(); }
    /// Sets the device work of each lane's tasks, shown in rows below them; null: none.
    void setKernels(std::shared_ptr<const KernelStore> kernels);
    const KernelStore* kernels() const { return kernels_.get(); }
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
    const RowFit& ownRows() const { return wholeLayout().own; }
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
    std::vector<DrawnName> drawnNames() const override;
    /// Scrolls vertically until the slice is visible. Does not move the time axis.
    void reveal(SliceRef slice);
    void revealLane(LaneId lane);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {300, topMargin() + 3 * kLowestTaskRow}; }

Q_SIGNALS:
    /// ownRows() may have changed.
    void laidOut();
    /// The user clicked where the lane runs nothing in a step. `time` is the store's.
    void gapPicked(pipescope::LaneId lane, std::int64_t time);
    /// The user clicked on a lane's name, or beside its copies. `compares`: with Ctrl.
    void lanePicked(pipescope::LaneId lane, bool links, bool compares);
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
    void click(const QPoint& position, Qt::KeyboardModifiers modifiers) override;
    const ItemRow& itemsOf(std::uint32_t row) const override { return store_->rows()[row]; }
    std::optional<SliceRef> selectedItem() const override;
    void clickGroup(const std::string& group) override { Q_EMIT groupPicked(QString::fromStdString(group)); }
    std::optional<TimeRange> rangeAt(const QPoint& position) const override;
    /// Only its name is clicked.
    const GroupBand* headerAt(const QPoint& position) const override;
    DragTool toolFor(const QMouseEvent& press) override;
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;
    QString toolTipAt(const QPoint& position) const override;

private:
    TimelineScene scene() const;
    void nameLanes();
    void revealLane(LaneId lane, const Band& band);
    TimelineScene kernelScene() const;
    bool isShown(const StoredRow& row, std::size_t slice) const {
        return !contains(hidden_, static_cast<TaskKind>(row.kind[slice]));
    }
    QString kernelToolTip(SliceRef kernel) const;
    /// Moves a lane to the place of another one.
    DragTool laneDrag(LaneId lane);
    /// Moves a simulated task to another place of its row.
    DragTool taskDrag(SliceRef task);
    void paintGutter(QPainter& painter) const;
    /// Shades the name of the selected lane, or the space beside its copies.
    void paintSelectedLane(QPainter& painter) const;
    bool showsNotes() const;
    const TimeMark* noteAt(const QPoint& position) const;
    void paintNotes(QPainter& painter) const;
    void paintGroups(QPainter& painter, const TimelineLayout& layout) const;
    void paintLowerBound(QPainter& painter) const;
    /// Shows how busy each lane was in the measured range.
    void paintShares(QPainter& painter) const;

    Source source_;
    std::shared_ptr<const TimelineStore> store_;
    std::shared_ptr<const KernelStore> kernels_;
    std::shared_ptr<const TimelineMarks> marks_;
    KindSet hidden_;
    bool notesShown_ = false;
    bool hadNotes_ = false;
    LaneArrangement arrangement_;
    RowFit mostRows_;
    struct LaneNames {
        QString full;
        QString brief;
    };
    std::vector<LaneNames> names_;  // by lane
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
