#pragma once

#include "base/ids.h"
#include "engine/engine_error.h"
#include "engine/skips.h"
#include "schedule/balance.h"
#include "schedule/task_graph.h"

#include <cstddef>
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

/// One skip of a model: the layers that stash and pop it.
struct Skip {
    SkipName name;
    LayerId stash;
    LayerId pop;

    friend bool operator==(const Skip&, const Skip&) = default;
};

/// The skips declared by the layers, by stashing layer, then name. The position is the skip's index in a TaskKey, here
/// and in simulations of a profile.
/// Throws SkipError with all problems at once: stashed or popped twice, stashed but never popped, popped but never
/// stashed or not yet, both in one layer, and two names of one layer that differ only in their space.
/// Source: torchgpipe's verify_skippables.
std::vector<Skip> verify_skippables(std::span<const LayerSkips> layers);

/// Gives one partition's layers access to its skips while a micro-batch runs through. Every skip that touches the
/// partition has a slot: first the incoming, then the outgoing, then those that stay inside.
struct PartitionSkips {
    /// A layer's own name for a skip, and its slot.
    struct Access {
        std::string name;
        std::size_t slot;
    };
    struct OfLayer {
        std::vector<Access> stash;
        std::vector<Access> pop;
    };
    std::vector<std::size_t> incoming;  ///< skips stashed on an earlier partition, ascending: slots 0..
    std::vector<std::size_t> outgoing;  ///< skips popped on a later one, ascending: the slots behind them
    std::size_t num_slots = 0;
    std::vector<OfLayer> layers;  ///< by layer of the partition
};

/// The route of each skip under a balance.
///
///     layer      0     1  |  2  |  3     4
///     stash a ───┘        |     |        └── pop a     one route 0 -> 2, past partition 1
///     partition      0       1         2
///
/// A skip between two partitions is an extra output of one and an extra input of the other; micro-batch graphs,
/// checkpointing and gradients treat it like any tensor. Only its copy differs: it goes straight from the stashing to
/// the popping lane. Skips inside one partition concern no other.
/// Threading: immutable. Source: torchgpipe (arXiv 2004.09910), section 3.3, where such routes are called portals.
class SkipLayout {
public:
    /// Throws SkipError as verify_skippables() does. The balance covers the layers.
    SkipLayout(std::span<const LayerSkips> layers, const Balance& balance);

    const std::vector<Skip>& skips() const noexcept { return skips_; }
    /// Includes skips inside one partition; for PipelineShape::skips.
    const std::vector<SkipRoute>& routes() const noexcept { return routes_; }
    const PartitionSkips& of(PartitionId partition) const { return partitions_.at(partition.index()); }
    /// Index of the skip among its popping partition's incoming skips.
    std::size_t place_in(std::size_t skip) const { return places_.at(skip).in; }
    /// Index of the skip among its stashing partition's outgoing skips.
    std::size_t place_out(std::size_t skip) const { return places_.at(skip).out; }

private:
    struct Places {
        std::size_t in;
        std::size_t out;
    };
    std::vector<Skip> skips_;
    std::vector<SkipRoute> routes_;
    std::vector<Places> places_;  // for skips that cross partitions
    std::vector<PartitionSkips> partitions_;
};
}  // namespace pipescope
