#pragma once

#include "base/ids.h"
#include "schedule/balance.h"
#include "schedule/task_graph.h"

#include <vector>

namespace pipescope {
/// Layers that use the same parameters, ascending. The first one holds them.
struct SharedLayers {
    std::vector<LayerId> layers;
    bool trains = true;
};

/// The routes of all groups under a balance: one from each partition that holds parameters to each other lane that uses
/// some of them. Groups with the same two ends share a route. Groups whose layers are on one lane need none.
std::vector<SharedRoute> shared_routes(const std::vector<SharedLayers>& groups, const Balance& balance,
                                       const std::vector<LaneId>& placement);

/// The position of the group's route to that partition's lane in `routes`, which shared_routes() has made with the same
/// balance and placement. Precondition: that lane is not the holder's.
std::size_t route_of(const std::vector<SharedRoute>& routes, const SharedLayers& group, const Balance& balance,
                     const std::vector<LaneId>& placement, LaneId user);
}  // namespace pipescope
