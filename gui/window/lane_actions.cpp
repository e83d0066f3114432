#include "gui/window/lane_actions.h"

#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/page_model.h"
#include "gui/window/timeline_stack.h"

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kLowestChosenRow = 1;
constexpr int kTallestChosenRow = 200;

/// Adds the element, or removes it if it is in the set.
template <class Element>
void toggle(std::set<Element>& set, const Element& element) {
    if (set.erase(element) == 0) {
        set.insert(element);
    }
}
}  // namespace

void LaneActions::apply(LaneArrangement arrangement) {
    model_.setArrangement(std::move(arrangement));
    if (const std::optional<LaneId> lane = model_.selectedLane()) {
        for (const Source source : {Source::measured, Source::simulated}) {
            views_.view(source).revealLane(*lane);
        }
    }
}

void LaneActions::fitAll() {
    LaneArrangement arrangement = model_.arrangement();
    arrangement.rowHeight.reset();
    apply(std::move(arrangement));
}

void LaneActions::changeHeight(int by) {
    const Source shown = model_.document() && !model_.document()->measured ? Source::simulated : Source::measured;
    const int now = views_.view(shown).rowHeight();
    LaneArrangement arrangement = model_.arrangement();
    arrangement.rowHeight = std::clamp(now + by * std::max(1, now / 4), kLowestChosenRow, kTallestChosenRow);
    apply(std::move(arrangement));
}

void LaneActions::toggleCollapsed() {
    if (const std::optional<LaneId> lane = model_.selectedLane()) {
        LaneArrangement arrangement = model_.arrangement();
        toggle(arrangement.collapsed, *lane);
        apply(std::move(arrangement));
    }
}

void LaneActions::togglePinned() {
    if (const std::optional<LaneId> lane = model_.selectedLane()) {
        LaneArrangement arrangement = model_.arrangement();
        toggle(arrangement.pinned, *lane);
        apply(std::move(arrangement));
    }
}

void LaneActions::move(int by) {
    if (const std::optional<LaneId> lane = model_.selectedLane()) {
        apply(withLaneMoved(model_.arrangement(), model_.lanes(), *lane, by));
    }
}

void LaneActions::toggleGrouping() {
    LaneArrangement arrangement = model_.arrangement();
    const bool toHosts = arrangement.grouped && !arrangement.byHost && hasHosts(model_.lanes());
    arrangement.grouped = toHosts || (!arrangement.grouped && hasProcesses(model_.lanes()));
    arrangement.byHost = toHosts;
    apply(std::move(arrangement));
}

void LaneActions::toggleGroup(const std::string& name) {
    LaneArrangement arrangement = model_.arrangement();
    toggle(arrangement.collapsedGroups, name);
    apply(std::move(arrangement));
}

void LaneActions::toggleOwnGroup() {
    const std::optional<LaneId> lane = model_.selectedLane();
    if (lane && lane->index() < model_.lanes().size() && model_.arrangement().grouped) {
        toggleGroup(groupOf(model_.arrangement(), model_.lanes()[lane->index()]));
    }
}

void LaneActions::reset() {
    apply({});
}
}  // namespace pipescope
