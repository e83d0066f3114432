#pragma once

#include "base/ids.h"
#include "engine/engine_error.h"
#include "engine/skips.h"
#include "schedule/balance.h"
#include "schedule/skip_routes.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// The layers' declared skips do not match. The message lists all problems.
class SkipError : public EngineError {
public:
    using EngineError::EngineError;
};

/// One layer's declarations.
struct LayerSkips {
    std::string layer;  ///< its name, for messages
    SkipNames names;
};

/// One skip of a model: the layer that stashes it, and the later layers that pop it.
struct Skip {
    SkipName name;
    LayerId stash;
    std::vector<LayerId> pops;  ///< ascending

    friend bool operator==(const Skip&, const Skip&) = default;
};

/// The skips declared by the layers, by stashing layer, then name; in simulations of a profile too.
/// Throws SkipError with all problems at once: stashed by two layers, or stashed or popped twice by one, stashed but
/// never popped, popped but never stashed or not yet, both in one layer, and two names of one layer that differ only in
/// their space.
/// Source: torchgpipe's verify_skippables, where a skip has one popping layer.
std::vector<Skip> verify_skippables(std::span<const LayerSkips> layers);

/// Gives one partition's layers access to its skips while a micro-batch runs through. Every skip that touches the
/// partition has a slot: first the incoming, then those that the partition's layers stash.
struct PartitionSkips {
    /// A layer's own name for a skip, and its slot.
    struct Access {
        std::string name;
        std::size_t slot;
        bool is_last = false;  ///< of pops: nobody takes the skip from the slot afterwards
    };
    struct OfLayer {
        std::vector<Access> stash;
        std::vector<Access> pop;
    };
    std::vector<std::size_t> incoming;        ///< routes from an earlier partition, ascending: slots 0..
    std::vector<std::size_t> outgoing;        ///< routes to a later one, ascending
    std::vector<std::size_t> outgoing_slots;  ///< by outgoing route; routes of one skip share a slot
    std::vector<char> is_popped_later;        ///< by incoming route: another partition pops the skip after this one
    std::size_t num_slots = 0;
    std::vector<OfLayer> layers;  ///< by layer of the partition
};

/// The routes of each skip under a balance.
///
///     layer      0     1  |  2  |  3     4
///     stash a ───┘        |     |        └── pop a     one route 0 -> 2, past partition 1
///     partition      0       1         2
///
/// A route between two partitions is an extra output of one and an extra input of the other; micro-batch graphs,
/// checkpointing and gradients treat it like any tensor. Only its copy differs: it goes straight from the stashing to
/// the popping lane. Skips inside one partition concern no other.
///
/// A skip may be popped by several layers. Those of one partition read one tensor, and autograd adds their gradients.
/// Those of several partitions of one lane have one route, which brings the tensor to the first, each partition hands
/// it on to the next, and their gradients are added on the way back. Each other lane has a route of its own, so that
/// the stashing partition has the skip among its outputs once for each route, and autograd adds what comes back.
/// Threading: immutable. Source: torchgpipe (arXiv 2004.09910), section 3.3, where such routes are called portals, and
/// each ends at one layer.
class SkipLayout {
public:
    /// Throws SkipError as verify_skippables() does. The balance covers the layers. `placement`: as in PipelineShape.
    SkipLayout(std::span<const LayerSkips> layers, const Balance& balance, const std::vector<LaneId>& placement = {});

    const std::vector<Skip>& skips() const noexcept { return skips_; }
    /// Includes those inside one partition; for PipelineShape::skips.
    const std::vector<SkipRoute>& routes() const noexcept { return routes_.routes; }
    const SkipName& name_of(std::size_t route) const { return skips_.at(routes_.skip_of.at(route)).name; }
    const PartitionSkips& of(PartitionId partition) const { return partitions_.at(partition.index()); }
    /// Index of the route among the partition's incoming ones.
    std::size_t place_in(std::size_t route, PartitionId partition) const;
    /// Index of the route among its stashing partition's outgoing ones.
    std::size_t place_out(std::size_t route) const;
    /// The first partition of the route's lane that gets the skip from elsewhere; none if the skip stays inside its
    /// own.
    std::optional<PartitionId> first_behind(std::size_t route) const;
    /// The partition that gets the skip from that one; none if that is the route's last.
    std::optional<PartitionId> next_behind(std::size_t route, PartitionId partition) const;

private:
    std::size_t slot_of(std::size_t skip, PartitionId partition) const;

    std::vector<Skip> skips_;
    SkipRoutes routes_;
    std::vector<PartitionSkips> partitions_;
};
}  // namespace pipescope
