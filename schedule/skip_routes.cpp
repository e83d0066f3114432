#include "schedule/skip_routes.h"

#include <algorithm>

namespace pipescope {
SkipRoutes skip_routes(std::span<const SkipLayers> skips, const Balance& balance,
                       const std::vector<LaneId>& placement) {
    SkipRoutes found;
    if (!placement.empty() && placement.size() != balance.num_partitions()) {
        return skip_routes(skips, balance, {});  // PipelineShape::check() refuses such a placement
    }
    for (std::size_t skip = 0; skip < skips.size(); ++skip) {
        const std::size_t first = found.routes.size();
        for (const LayerId pop : skips[skip].pops) {
            const PartitionId to = balance.partition_of(pop);
            const auto own = std::find_if(
                found.routes.begin() + static_cast<std::ptrdiff_t>(first), found.routes.end(),
                [&](const SkipRoute& each) { return lane_of(placement, each.to.front()) == lane_of(placement, to); });
            if (own == found.routes.end()) {
                found.routes.push_back({balance.partition_of(skips[skip].stash), {to}});
                found.skip_of.push_back(skip);
            } else if (own->to.back() != to) {
                own->to.push_back(to);
            }
        }
    }
    return found;
}
}  // namespace pipescope
