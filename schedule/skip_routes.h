#pragma once

#include "base/ids.h"
#include "schedule/balance.h"
#include "schedule/task_graph.h"

#include <cstddef>
#include <span>
#include <vector>

namespace pipescope {
/// The layers of a skip: one stashes it, later ones pop it.
struct SkipLayers {
    LayerId stash;
    std::vector<LayerId> pops;  ///< ascending
};

/// The way of all skips under a balance.
///
///     layer         0     1     2  |  3  |  4     5
///     stash a ──────┘     │        |     |  │     └─ pop a     two routes: 0 -> 0, and 0 -> 2 for both layers
///                         └─ pop a |     |  └─ pop a
///     partition           0           1         2
struct SkipRoutes {
    std::vector<SkipRoute> routes;     ///< by skip, then by first popping partition
    std::vector<std::size_t> skip_of;  ///< by route
};

/// One route for each lane that pops a skip. A skip with one popping layer has one route, so that its number does not
/// depend on the cut.
SkipRoutes skip_routes(std::span<const SkipLayers> skips, const Balance& balance, const std::vector<LaneId>& placement);
}  // namespace pipescope
