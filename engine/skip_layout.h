#pragma once

#include "engine/engine_error.h"
#include "engine/skips.h"
#include "schedule/balance.h"
#include "schedule/ids.h"
#include "schedule/task_graph.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// The layers' declared skips do not match. The message lists everything that is wrong.
class SkipError : public EngineError {
public:
    using EngineError::EngineError;
};

/// What one layer declared.
struct LayerSkips {
    std::string layer;  ///< its name, for messages
    SkipNames names;
};

/// One skip of a model: which layer stashes and which pops it.
struct Skip {
    SkipName name;
    LayerId stash;
    LayerId pop;

    friend bool operator==(const Skip&, const Skip&) = default;
};

/// The skips that the layers' declarations make, by stashing layer, then name: their position is the skip's index in a
/// TaskKey, here and where a profile's skips are simulated.
/// Throws SkipError with all findings in one: stashed or popped a second time, stashed and never popped, popped and
/// never stashed or before it is, both in one layer, and two names of one layer that only their space tells apart.
/// Source: torchgpipe's verify_skippables.
std::vector<Skip> verify_skippables(std::span<const LayerSkips> layers);

/// How one partition's layers reach its skips while a micro-batch runs through. Every skip that touches the partition
/// has a slot: first those that come in, then those that leave, then those that stay inside.
struct PartitionSkips {
    /// A layer's own name for a skip, and the slot behind it.
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
    std::vector<OfLayer> layers;  ///< of the partition, in order
};

/// Where each skip goes under a balance.
///
///     layer      0     1  |  2  |  3     4
///     stash a ───┘        |     |        └── pop a     one route 0 -> 2, past partition 1
///     partition      0       1         2
///
/// A skip whose ends lie on different partitions is one more input of the one and output of the other; micro-batch
/// graphs, checkpointing and gradients treat it like any. Only its copy is different: it goes straight from the
/// stashing to the popping lane. Skips inside one partition are nobody's business but its own.
/// Threading: immutable. Source: torchgpipe (arXiv 2004.09910), section 3.3, where such routes are called portals.
class SkipLayout {
public:
    /// Throws SkipError as verify_skippables() does. The balance covers the layers.
    SkipLayout(std::span<const LayerSkips> layers, const Balance& balance);

    const std::vector<Skip>& skips() const noexcept { return skips_; }
    /// Of every skip, those inside one partition included: PipelineShape::skips.
    const std::vector<SkipRoute>& routes() const noexcept { return routes_; }
    const PartitionSkips& of(PartitionId partition) const { return partitions_.at(partition.index()); }
    /// Where the skip stands among its popping partition's incoming skips.
    std::size_t place_in(std::size_t skip) const { return places_.at(skip).in; }
    /// Where it stands among its stashing partition's outgoing skips.
    std::size_t place_out(std::size_t skip) const { return places_.at(skip).out; }

private:
    struct Places {
        std::size_t in;
        std::size_t out;
    };
    std::vector<Skip> skips_;
    std::vector<SkipRoute> routes_;
    std::vector<Places> places_;  // of skips that cross partitions
    std::vector<PartitionSkips> partitions_;
};
}  // namespace pipescope
