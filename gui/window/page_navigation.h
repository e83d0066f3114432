#pragma once

#include "gui/timeline/time_axis_model.h"

#include <optional>

namespace pipescope {
class PageModel;
class TimelineStack;

/// Moves the selection and the visible window of a page from place to place. Does nothing while the page is empty.
class PageNavigation {
public:
    /// Both must outlive this object.
    PageNavigation(PageModel& model, TimelineStack& views);

    /// Selects a task and makes it visible. A task that exists only in the simulated step 0 is found for any step.
    /// Returns false if there is no such task.
    bool goTo(Source source, const TaskKey& task);
    /// Selects the lane's first task of the step and shows all its work in the step. Uses simulated tasks if the lane
    /// has no measured ones.
    void goToLane(LaneId lane);
    /// Selects a bubble of the analysed step and zooms to it.
    void goTo(Source source, const Bubble& bubble);
    /// Makes a time of the recording visible at the current zoom, and moves the cursor there.
    void goToTime(std::int64_t ns);
    /// Zooms to the selected task or bubble and its twin, or to the step without a selection.
    void fitSelection();
    /// Moves the view just enough to show the selected task or bubble.
    void showSelection();
    /// Selects a task and moves the view just enough to show it.
    void show(Source source, SliceRef slice);
    /// Selects a range of a thread or stream and moves the view just enough to show it.
    void show(const SliceRef& range);
    /// Selects the task that launched a kernel of the document, makes the kernel visible, and moves the cursor there.
    void showKernel(const SliceRef& kernel);
    /// Selects the next (1) or previous (-1) task in the row of the selected one, or bubble of its lane, or the first
    /// visible task without a selection.
    void moveSelection(int by);
    /// Selects the next (1) or previous (-1) task of the same kind on the same lane, or bubble of the same cause on any
    /// lane, or range of the same name on any thread, or the first visible task without a selection.
    void selectOfKind(int by);
    /// The selected task, bubble or range on the axis, without its twin; empty without a selection.
    std::optional<TimeRange> selectedRange() const;
    /// Adds a mark at the cursor; without one at the start of the selected task, otherwise in the middle.
    void addMark();
    /// Makes the next (1) or previous (-1) mark visible.
    void goToMark(int by);

private:
    /// A task's range on the axis.
    TimeRange rangeOf(Source source, SliceRef slice) const;
    /// The selected task or bubble, or its twin, in one timeline.
    std::optional<TimeRange> selectedRangeIn(Source source) const;
    /// From the start to the end of the selection and its twin.
    std::optional<TimeRange> rangeWithTwin() const;
    /// The selected bubble; null if none is.
    const PartSelection* bubble() const;
    void selectBubble(const Bubble& next);
    /// The selected range of a thread or stream.
    std::optional<SliceRef> range() const;
    void centre(std::int64_t time);

    PageModel& model_;
    TimelineStack& views_;
    TimeAxisModel& axis_;
};
}  // namespace pipescope
