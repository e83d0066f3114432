#pragma once

#include "schedule/timeline.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
/// How the user arranged the lanes of a page: the same for all its views. An immutable value to the views.
struct LaneArrangement {
    std::vector<LaneId> order = {};   ///< from top to bottom; lanes that are not listed follow in their own order
    std::set<LaneId> pinned = {};     ///< stay at the top while the others scroll
    std::set<LaneId> collapsed = {};  ///< thin lines
    bool grouped = false;             ///< lanes of one process stand together under its name
    bool byHost = false;              ///< with `grouped`: lanes of all processes of one host
    std::set<std::string> collapsedGroups = {};  ///< groups drawn as one row, the mean of their lanes
    /// Pixels of a row of tasks; empty: as high as the view has room for all lanes.
    std::optional<int> rowHeight = {};

    friend bool operator==(const LaneArrangement&, const LaneArrangement&) = default;
};

/// "rank 1, host b", the process that a merged trace names in a lane's name: "lane 3 (rank 1, host b)". Empty: none.
std::string processOf(const LaneInfo& lane);
/// "host b", of such a name. Empty: none.
std::string hostOf(const LaneInfo& lane);
/// True if lanes belong to two processes or more, so that groups mean something.
bool hasProcesses(const std::vector<LaneInfo>& lanes);
/// True if they belong to two hosts or more, one of them with several processes.
bool hasHosts(const std::vector<LaneInfo>& lanes);
/// The group of a lane in this arrangement; empty: none.
std::string groupOf(const LaneArrangement& arrangement, const LaneInfo& lane);

/// A lane in its place.
struct ArrangedLane {
    LaneId lane;
    std::string group;  ///< empty: none, as for pinned lanes
    bool pinned = false;
    bool collapsed = false;
    bool grouped = false;  ///< its group is one row
};
/// All lanes from top to bottom: pinned ones first, then group by group.
std::vector<ArrangedLane> arrangedLanes(const LaneArrangement& arrangement, const std::vector<LaneInfo>& lanes);

/// Moves a lane by that many places among its neighbours: those of its group, or the pinned ones. Ends at the first or
/// the last of them.
LaneArrangement withLaneMoved(LaneArrangement arrangement, const std::vector<LaneInfo>& lanes, LaneId lane, int by);
/// Moves a lane to the place of another one, of the same group.
LaneArrangement withLaneAt(LaneArrangement arrangement, const std::vector<LaneInfo>& lanes, LaneId lane, LaneId place);
}  // namespace pipescope
