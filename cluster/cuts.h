#pragma once

#include "base/sparse_table.h"
#include "cluster/known_profiles.h"
#include "cluster/layout.h"
#include "profiler/profile/profile.h"
#include "schedule/balance.h"
#include "simulator/pipeline_options.h"
#include "simulator/simulation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// The profiles of a model by part of a pipeline, and the part of each lane.
struct PartProfiles {
    std::vector<PartProfilePointer> parts;
    std::vector<std::size_t> of_lane;  ///< index in parts
    const Profile& at(std::size_t lane) const { return parts[of_lane[lane]]->profile; }
};

/// The costs that cuts balance, by part and layer, in ns.
using LayerCosts = std::vector<std::vector<double>>;
/// The layers' times for a micro-batch.
LayerCosts times_by_part(const PartProfiles& profiles);

std::size_t lane_of(const PipelineOptions& options, std::size_t partition);

/// Times of a micro-batch's copies from lane to lane.
struct CopyTimes {
    std::vector<double> after;    ///< by partition but the last: of its output, and of the gradient that comes back
    std::vector<double> of_lane;  ///< by lane: in which it computes nothing, since it sends or receives
    double all() const;           ///< of all partitions' outputs
    /// On the first micro-batch's way to the partition, and unless the schedule `splits` backwards, on the last one's
    /// way back from the partition before.
    double before(std::size_t partition, bool splits) const;
};
/// `bytes`: the least that a partition passes on. An empty placement: partition j on lane j.
CopyTimes copy_times(const Hardware& hardware, const std::vector<LaneId>& placement, std::size_t lanes,
                     std::size_t partitions, double bytes);
/// Holds for any cuts into as many partitions as the options' balance has.
CopyTimes copy_times(const PartProfiles& profiles, const PipelineOptions& options);

/// Equal numbers of blocks, with the embedding before and the output layer after. Precondition: partitions divide the
/// blocks.
Balance even_cuts(std::size_t layers, int partitions);

/// Partitions with these numbers of blocks, with the embedding before and the output layer after. Precondition: only
/// the first and the last may be 0.
Balance own_cuts(std::vector<std::int64_t> blocks);

/// The cuts whose most expensive partition is cheapest, regardless of memory. `options` has the placement.
Balance quickest_cuts(const PartProfiles& profiles, const LayerCosts& costs, const PipelineOptions& options,
                      std::size_t partitions);

/// A profile in which each layer has the costs of the part where the options' balance puts it.
Profile joined(const PartProfiles& profiles, const PipelineOptions& options, const std::string& device);

/// Bytes of any range of a part's layers.
struct PartSums {
    PartSums(const PartProfile& part, const PipelineOptions& options);

    std::vector<double> constants;  ///< prefix sums over the layers: parameters, gradients, buffers, optimizer
    std::vector<double> kept;       ///< prefix sums: for the backward of a micro-batch
    SparseTable work;               ///< of a single layer
};

/// Finds the cuts whose most expensive partition is cheapest among those that keep the memory limits, by simulation.
///
/// From a simulation's peaks, estimates what each lane would hold with other layers: constants, what the backward
/// needs, and the largest layer's own work. Each cut that a simulation refuses lowers what the lanes over their limit
/// may hold. If a lane has several partitions, each gets its share of the lane's memory.
class FittingCuts {
public:
    /// `options`: with placement and limits. Borrows all arguments.
    FittingCuts(const PartProfiles& profiles, const LayerCosts& costs, const PipelineOptions& options);

    /// The next cuts to simulate; empty if none is left. Precondition: `refused` is the infeasible simulation of the
    /// last cuts, or at first of quickest_cuts(), with its memory.
    std::optional<Balance> after(const Simulation& refused);

private:
    double held(std::size_t partition, std::size_t first, std::size_t end) const;

    const PartProfiles& profiles_;
    const LayerCosts& costs_;
    const PipelineOptions& options_;
    std::vector<PartSums> sums_;         // by part
    std::vector<double> micro_batches_;  // by lane: number held at the peak; empty before the first simulation
    std::vector<double> most_;           // by partition: bytes
};

/// Bounds for the memory of lanes and the time of the pipeline, without a simulation.
class CutMemory {
public:
    /// `options`: with placement, limits, and a balance of as many partitions. `boundary`: bytes from lane to lane.
    /// Borrows the other arguments.
    CutMemory(const PartProfiles& profiles, const PipelineOptions& options, double boundary);

    /// True if no lane can exceed its limit with these cuts, whichever tensors wait.
    bool surely_fits(const Balance& balance) const;
    /// True if some lane must exceed its limit with these cuts, however early tensors go.
    bool surely_exceeds(const Balance& balance) const;
    /// A lower bound in ns to the end of the last backward, over all cuts that fit. Empty if none fit.
    std::optional<double> least_pipeline_ns() const;

private:
    double least_bytes(std::size_t lane, std::size_t first, std::size_t end) const;

    const PartProfiles& profiles_;
    const PipelineOptions& options_;
    std::int64_t micro_batches_;
    double boundary_;
    std::vector<Bytes> limits_;           // by lane; empty: none
    std::vector<PartSums> sums_;          // by part
    std::vector<HeldMicroBatches> held_;  // by lane
    CopyTimes copies_;
};
}  // namespace pipescope
