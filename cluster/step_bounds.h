#pragma once

#include "cluster/cuts.h"
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
/// At least this share of the lanes' work takes time. Pairs of the schedule hide the rest: at most a share of their
/// shorter half (TrainingProgram::pair_overlap).
double least_work_share(const Layout& layout);

/// How much shorter in ns a simulated step may be than its exact times, since the simulation rounds each task of a lane
/// and each way to whole ns: at most half of a ns for a forward and each half of a backward.
double rounding_of(const Layout& layout);

/// Bounds of layouts' steps, from layer costs that many layouts share. Threading: any threads.
class StepBounds {
public:
    /// Borrows both arguments.
    StepBounds(const LanguageModel& model, const Cluster& cluster) : model_(model), cluster_(cluster) {}

    /// A lower bound in ns for the layout's simulated step, whatever its cuts. At least 0. Faster than least_step().
    double of(const Layout& layout, const PipelineParts& parts);

private:
    /// Forward and backward of a micro-batch.
    struct Costs {
        double least = 0;    ///< for the faster kind of block
        double blocks = 0;   ///< for all blocks
        double forward = 0;  ///< for the faster kind of block
        std::map<BlockKind, double> of = {};
        double embedding = 0;
        double output = 0;
        double most_sent = 1;  ///< bytes from lane to lane
        double least_sent = 0;
        /// Time per block on the way of the first micro-batch, and unless `splits`, on the way back of the last.
        double way(bool splits) const { return splits ? forward : least; }
    };
    double unrounded(const Layout& layout, const PipelineParts& parts);
    double unlike_lanes(const Layout& layout, const PipelineParts& parts, const CopyTimes& copies, bool splits);
    double whole_blocks(const Layout& layout, const PipelineParts& parts, const CopyTimes& copies, bool splits,
                        double known);
    double one_way(const Layout& layout, const PipelineParts& parts, const CopyTimes& copies, bool splits);
    CopyTimes copies_of(const Layout& layout, const PipelineParts& parts);
    double sums_ns(const Layout& layout, const NodeGroup& group, double blocks) const;
    bool sums_by_affine_links(const Layout& layout, const NodeGroup& group) const;
    double last_blocks(const Costs& costs, const Layout& layout, std::int64_t cuts) const;
    const Costs& costs_of(const NodeGroup& group, const Layout& layout);

    const LanguageModel& model_;
    const Cluster& cluster_;
    std::map<std::tuple<const NodeGroup*, int, int, int, int, int, std::int64_t, Recompute>, Costs> known_;
    std::mutex mutex_;  ///< of known_
};

/// How many bytes the layout certainly lacks, so that it needs no simulation: parameters, gradients and optimizer
/// state, and activations. With even cuts, for the first lane; with others, for all blocks together, wherever they are.
std::optional<Shortfall> sure_shortfall(const LanguageModel& model, const Layout& layout, const PipelineParts& parts);
}  // namespace pipescope
