#include "schedule/shared_routes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace pipescope {
std::vector<SharedRoute> shared_routes(const std::vector<SharedLayers>& groups, const Balance& balance,
                                       const std::vector<LaneId>& placement) {
    struct Ends {
        std::set<PartitionId> users;
        bool trains = false;
    };
    std::map<std::pair<PartitionId, LaneId>, Ends> found;  // by holder and using lane
    for (const SharedLayers& group : groups) {
        const PartitionId from = balance.partition_of(group.layers.front());
        for (const LayerId layer : group.layers) {
            const PartitionId user = balance.partition_of(layer);
            if (lane_of(placement, user) != lane_of(placement, from)) {
                Ends& ends = found[{from, lane_of(placement, user)}];
                ends.users.insert(user);
                ends.trains = ends.trains || group.trains;
            }
        }
    }
    std::vector<SharedRoute> routes;
    for (const auto& [key, ends] : found) {
        routes.push_back({key.first, {ends.users.begin(), ends.users.end()}, ends.trains});
    }
    return routes;
}

std::size_t route_of(const std::vector<SharedRoute>& routes, const SharedLayers& group, const Balance& balance,
                     const std::vector<LaneId>& placement, LaneId user) {
    const PartitionId from = balance.partition_of(group.layers.front());
    const auto found = std::ranges::find_if(routes, [&](const SharedRoute& route) {
        return route.from == from && lane_of(placement, route.users.front()) == user;
    });
    return static_cast<std::size_t>(found - routes.begin());
}
}  // namespace pipescope
