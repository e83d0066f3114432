#include "gui/timeline/lane_arrangement.h"

#include <algorithm>
#include <string_view>

namespace pipescope {
namespace {
constexpr std::string_view kProcess = " (rank ";
constexpr std::string_view kHostPart = ", host ";

/// All lanes in the user's order, whatever their groups.
std::vector<LaneId> orderOf(const LaneArrangement& arrangement, std::size_t lanes) {
    std::vector<LaneId> order;
    std::vector<bool> placed(lanes, false);
    const auto place = [&](LaneId lane) {
        if (lane.value() >= 0 && lane.index() < lanes && !placed[lane.index()]) {
            placed[lane.index()] = true;
            order.push_back(lane);
        }
    };
    for (const LaneId lane : arrangement.order) {
        place(lane);
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        place(LaneId{static_cast<std::int32_t>(lane)});
    }
    return order;
}
}  // namespace

std::string processOf(const LaneInfo& lane) {
    const std::size_t begin = lane.name.rfind(kProcess);
    return begin == std::string::npos || lane.name.back() != ')'
               ? std::string()
               : lane.name.substr(begin + 2, lane.name.size() - begin - 3);
}

std::string hostOf(const LaneInfo& lane) {
    const std::string process = processOf(lane);
    const std::size_t begin = process.find(kHostPart);
    return begin == std::string::npos ? std::string() : process.substr(begin + 2);
}

bool hasHosts(const std::vector<LaneInfo>& lanes) {
    std::set<std::string> processes;
    std::set<std::string> hosts;
    for (const LaneInfo& lane : lanes) {
        processes.insert(processOf(lane));
        hosts.insert(hostOf(lane));
    }
    return hosts.size() > 1 && !hosts.contains("") && processes.size() > hosts.size();
}

std::string groupOf(const LaneArrangement& arrangement, const LaneInfo& lane) {
    return !arrangement.grouped ? std::string() : arrangement.byHost ? hostOf(lane) : processOf(lane);
}

bool hasProcesses(const std::vector<LaneInfo>& lanes) {
    std::set<std::string> processes;
    for (const LaneInfo& lane : lanes) {
        processes.insert(processOf(lane));
    }
    return processes.size() > 1;
}

std::vector<ArrangedLane> arrangedLanes(const LaneArrangement& arrangement, const std::vector<LaneInfo>& lanes) {
    const bool groups = arrangement.grouped && (arrangement.byHost ? hasHosts(lanes) : hasProcesses(lanes));
    std::vector<ArrangedLane> arranged;
    std::vector<std::string> groupsInOrder;
    for (const LaneId lane : orderOf(arrangement, lanes.size())) {
        ArrangedLane each;
        each.lane = lane;
        each.pinned = arrangement.pinned.contains(lane);
        each.collapsed = arrangement.collapsed.contains(lane) && !each.pinned;
        if (groups && !each.pinned) {
            each.group = groupOf(arrangement, lanes[lane.index()]);
            each.grouped = arrangement.collapsedGroups.contains(each.group);
            if (std::find(groupsInOrder.begin(), groupsInOrder.end(), each.group) == groupsInOrder.end()) {
                groupsInOrder.push_back(each.group);
            }
        }
        arranged.push_back(std::move(each));
    }
    const auto placeOf = [&](const ArrangedLane& lane) {
        const auto group = std::find(groupsInOrder.begin(), groupsInOrder.end(), lane.group);
        return lane.pinned ? -1 : static_cast<int>(group - groupsInOrder.begin());
    };
    std::stable_sort(arranged.begin(), arranged.end(),
                     [&](const ArrangedLane& a, const ArrangedLane& b) { return placeOf(a) < placeOf(b); });
    return arranged;
}

LaneArrangement withLaneAt(LaneArrangement arrangement, const std::vector<LaneInfo>& lanes, LaneId lane, LaneId place) {
    std::vector<ArrangedLane> arranged = arrangedLanes(arrangement, lanes);
    const auto find = [&](LaneId id) {
        return std::find_if(arranged.begin(), arranged.end(),
                            [id](const ArrangedLane& each) { return each.lane == id; });
    };
    const auto from = find(lane);
    const auto to = find(place);
    if (from == arranged.end() || to == arranged.end() || from->pinned != to->pinned || from->group != to->group) {
        return arrangement;
    }
    if (from < to) {
        std::rotate(from, from + 1, to + 1);
    } else {
        std::rotate(to, from, from + 1);
    }
    arrangement.order.clear();
    for (const ArrangedLane& each : arranged) {
        arrangement.order.push_back(each.lane);
    }
    return arrangement;
}

LaneArrangement withLaneMoved(LaneArrangement arrangement, const std::vector<LaneInfo>& lanes, LaneId lane, int by) {
    std::vector<ArrangedLane> peers = arrangedLanes(arrangement, lanes);
    const auto own =
        std::find_if(peers.begin(), peers.end(), [&](const ArrangedLane& each) { return each.lane == lane; });
    if (own == peers.end()) {
        return arrangement;
    }
    const ArrangedLane moved = *own;
    std::erase_if(peers,
                  [&](const ArrangedLane& each) { return each.pinned != moved.pinned || each.group != moved.group; });
    const auto at =
        std::find_if(peers.begin(), peers.end(), [&](const ArrangedLane& each) { return each.lane == lane; });
    const auto last = static_cast<std::ptrdiff_t>(peers.size()) - 1;
    const std::ptrdiff_t target = std::clamp<std::ptrdiff_t>((at - peers.begin()) + by, 0, last);
    return withLaneAt(std::move(arrangement), lanes, lane, peers[static_cast<std::size_t>(target)].lane);
}
}  // namespace pipescope
