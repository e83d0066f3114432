#include "schedule/placement.h"

#include "base/error.h"
#include "base/printable.h"

#include <algorithm>

namespace pipescope {
std::vector<LaneId> checked_placement(const std::vector<std::int64_t>& lanes) {
    const auto refuse = [&lanes](std::size_t partition, const std::string& why) {
        return UsageError("placement[" + std::to_string(partition) + "] is " + std::to_string(lanes[partition]) + why +
                          "; lanes are numbered from 0 without gaps; renumber them, such as 0,0,1");
    };
    const auto count = static_cast<std::int64_t>(lanes.size());
    std::vector<LaneId> placement;
    for (std::size_t j = 0; j < lanes.size(); ++j) {
        if (lanes[j] < 0 || lanes[j] >= count) {
            throw refuse(j, lanes[j] < 0 ? ""
                                         : " and there are " + std::to_string(count) +
                                               " partitions, so the last lane can be " + std::to_string(count - 1));
        }
        const std::int64_t before = lanes[j] - 1;
        if (before >= 0 && std::find(lanes.begin(), lanes.end(), before) == lanes.end()) {
            throw refuse(j, " and no partition is on lane " + std::to_string(before));
        }
        placement.emplace_back(lanes[j]);
    }
    return placement;
}

std::string placement_text(const std::vector<LaneId>& placement) {
    return joined_text(placement, ",", [](LaneId lane) { return std::to_string(lane.value()); });
}

std::vector<LaneId> placement_in_turn(std::size_t partitions, std::size_t lanes) {
    std::vector<LaneId> placement;
    for (std::size_t j = 0; j < partitions; ++j) {
        placement.emplace_back(static_cast<std::int64_t>(j % lanes));
    }
    return placement;
}

std::vector<LaneId> placement_in_v(std::size_t lanes) {
    std::vector<LaneId> placement = placement_in_turn(lanes, std::max<std::size_t>(1, lanes));
    for (std::size_t lane = lanes; lane-- > 0;) {
        placement.emplace_back(static_cast<std::int64_t>(lane));
    }
    return placement;
}
}  // namespace pipescope
