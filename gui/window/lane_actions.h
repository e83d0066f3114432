#pragma once

#include "gui/timeline/lane_arrangement.h"

#include <string>

namespace pipescope {
class PageModel;
class TimelineStack;

/// Changes the arrangement of a page's lanes. Actions for one lane act on the selected lane, or on that of the selected
/// task or bubble. Without a selection they do nothing.
class LaneActions {
public:
    /// Both must outlive this object.
    LaneActions(PageModel& model, TimelineStack& views) : model_(model), views_(views) {}

    /// All lanes on one screen.
    void fitAll();
    /// Makes the rows of tasks higher (1) or lower (-1), by about a quarter.
    void changeHeight(int by);
    void toggleCollapsed();
    void togglePinned();
    /// Moves the lane down (1) or up (-1).
    void move(int by);
    /// Lanes of one process together under its name, then those of one host, then none. Nothing if the lanes have no
    /// processes.
    void toggleGrouping();
    void toggleGroup(const std::string& name);
    /// Collapses or expands the group of the lane.
    void toggleOwnGroup();
    /// All lanes in the order of the file, as high as they fit.
    void reset();

private:
    /// Keeps the lane in view.
    void apply(LaneArrangement arrangement);

    PageModel& model_;
    TimelineStack& views_;
};
}  // namespace pipescope
