#pragma once

#include "base/ids.h"

#include <vector>

namespace pipescope {
/// Lanes 0 to count - 1.
inline std::vector<LaneId> first_lanes(int count) {
    std::vector<LaneId> lanes;
    for (int lane = 0; lane < count; ++lane) {
        lanes.push_back(LaneId{lane});
    }
    return lanes;
}
}  // namespace pipescope
