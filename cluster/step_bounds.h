#pragma once

#include "cluster/layout.h"
#include "simulator/memory/memory_fit.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace pipescope {
/// True if the schedule puts a lane's two partitions at both ends of the pipeline.
bool lies_in_a_v(const Schedule& schedule);

/// Bounds of layouts' steps from the costs of their layers, which many layouts have in common. Threading: any threads.
class StepBounds {
public:
    /// Borrows both.
    StepBounds(const LanguageModel& model, const Cluster& cluster) : model_(model), cluster_(cluster) {}

    /// Time in ns that no simulated step of the layout falls below, whatever its cuts. At least 0. Takes less than
    /// least_step().
    double of(const Layout& layout, const PipelineParts& parts);

private:
    /// Forward and backward of a micro-batch.
    struct Costs {
        double least = 0;    ///< of the kind of block that takes less
        double last = 0;     ///< of the last block
        double blocks = 0;   ///< of all of them
        double forward = 0;  ///< of a block that takes less
        double embedding = 0;
        double output = 0;
        /// Of a block on the way of the first micro-batch; unless `splits`, on the way back of the last one too.
        double way(bool splits) const { return splits ? forward : least; }
    };
    double unrounded(const Layout& layout, const PipelineParts& parts);
    double unlike_lanes(const Layout& layout, const PipelineParts& parts, bool splits);
    Costs costs_of(const NodeGroup& group, const Layout& layout);

    const LanguageModel& model_;
    const Cluster& cluster_;
    std::map<std::tuple<const NodeGroup*, int, int, int, int, std::int64_t, Recompute>, Costs> known_;
    std::mutex mutex_;
};

/// Bytes by which a layout does not fit for sure, so that it needs no simulation: parameters, gradients and optimizer
/// state, and activations. With even cuts, of the first lane; with others, of all blocks together, wherever they lie.
std::optional<Shortfall> sure_shortfall(const LanguageModel& model, const Layout& layout, const PipelineParts& parts);
}  // namespace pipescope
