#pragma once

#include "schedule/balance.h"
#include "schedule/checkpoint.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// Maximum number of layers of the exact search. Its table of times grows with the square of this number, to 110 MB.
inline constexpr std::size_t kMostExactLayers = 3000;

class IntervalTable;

/// Times for micro-batches of two sizes. The larger ones come first in the step.
struct TwoSizes {
    std::shared_ptr<const IntervalTable> larger, smaller;
    std::vector<std::int64_t> copy_larger_ns, copy_smaller_ns;  ///< across a cut after each layer, both directions
    int num_larger = 0;
};

/// The problem to solve: one GPipe step with m equal micro-batches, partition j on its own lane.
struct PartitionProblem {
    int partitions = 1;
    int micro_batches = 1;
    Checkpoint checkpoint = Checkpoint::except_last;
    // For one micro-batch, per layer, in ns at speed 1.
    std::vector<double> forward_ns;
    std::vector<double> recompute_ns;
    std::vector<double> backward_ns;
    /// Forward of the last micro-batch, if only that one keeps its graph (except_last, several micro-batches). Empty:
    /// the same as forward_ns.
    std::vector<double> kept_forward_ns;
    // Across a cut after layer l, in ns. One fewer than layers, or empty for free copies.
    std::vector<std::int64_t> copy_forward_ns;
    std::vector<std::int64_t> copy_backward_ns;
    std::vector<bool> free_boundary;  ///< true if partitions j and j + 1 share a device; empty: no free boundary
    std::vector<double> speeds;       ///< by partition: its lane's speed; empty: all 1
    std::int64_t loss_ns = 0;
    /// Peak bytes of a partition's lane, and the limit of each partition's lane. Set both or neither.
    std::function<Bytes(PartitionId, LayerRange)> peak_bytes;
    std::vector<Bytes> memory_limits;  ///< empty: no limit
    /// Quickly proves that a range of layers, and every longer range that contains it, exceeds its lane's limit. May be
    /// empty.
    std::function<bool(PartitionId, LayerRange)> exceeds_limit;
    /// The times of all ranges, if another problem with the same layers and speeds has already computed them.
    std::shared_ptr<const IntervalTable> intervals;
    /// Set if micro-batches differ in size. The arrays above then hold the smaller value, and the step is a lower
    /// bound.
    std::optional<TwoSizes> two_sizes;
};
/// How far this lane's limit is below the largest limit; 0 without limits. A lane's need plus its gap can be compared
/// with one common limit.
Bytes limit_gap(const std::vector<Bytes>& memory_limits, std::size_t lane);
/// True if these layers as a partition keep the lane's limit.
bool keeps_limit(const PartitionProblem& problem, std::size_t partition, std::size_t first, std::size_t end);

struct RankedBalance {
    Balance balance;
    std::int64_t step_ns = 0;

    friend bool operator==(const RankedBalance&, const RankedBalance&) = default;
};

/// Finds the balance with the shortest GPipe step, exact to the rounded nanosecond of a simulated step. Further cuts
/// that were not ruled out follow, shortest first, at most `most` in all. Empty if no cut keeps the memory limit.
///
/// Problem: cut a chain so that the makespan, not the largest part, is smallest.
///
/// Idea: by the closed form of gpipe_step(), the step is a sum over partitions and cuts plus (m - 1) times two
/// bottlenecks, one per phase. Among all ways to cut a prefix, only those matter that no other way dominates in (sum,
/// forward bottleneck, backward bottleneck). Dynamic programming runs over such labels. An upper bound from min-max
/// cuts and exact lower bounds for the remaining layers prune it. Mode `always` needs one more number, since the
/// critical path may start with a late partition's recompute.
///
/// Cost: milliseconds for 400 layers on 16 partitions. Deterministic. Throws BalanceError unless 1 <= partitions <=
/// layers.
std::vector<RankedBalance> optimal_partitions(const PartitionProblem& problem, std::size_t most = 1);

/// Closed form of the step time of one balance, in ns: GPipe, a barrier at the loss, backward from the last micro-batch
/// on, serial links, recompute ahead of the gradient's arrival. With f, b, r of the partitions and c, g of the copies,
/// and q the last micro-batch's forward, if it alone keeps its graph:
///
///     forward   sum f + sum c + (m - 1) max(max f, max c)
///               with q       max over machines k, partitions and links in order, of
///                            sum_{j<=k} t_j + (m - 2) max_{j<=k} t_j + sum_{j>=k} u_j
///                            where t is f or c, and u is q or c
///     backward  never        sum b + sum g + (m - 1) max(max b, max g)
///               except_last  sum b + sum g + (m - 1) max(max (r + b), max g)
///               always       max over k of r_k + sum_{j<=k} b_j + sum_{j<k} g_j
///                                          + (m - 1) max(max_{j<=k} (r_j + b_j), max_{j<k} g_j)
///
/// The forward phase is a flow shop of equal jobs. So is the backward phase from partition k on, where k is the last
/// partition whose recompute delays the step. With q, the last micro-batch meets the ones before it at machine k.
std::int64_t gpipe_step(const PartitionProblem& problem, const Balance& balance);

/// The smallest limit under which a cut is possible. If the limits differ, all move by the same number of bytes, and
/// the result is the largest of them. Precondition: problem.peak_bytes is set.
Bytes smallest_memory_limit(const PartitionProblem& problem, Balance* balance = nullptr);
}  // namespace pipescope
