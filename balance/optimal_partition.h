#pragma once

#include "schedule/balance.h"
#include "schedule/checkpoint.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// Layers the exact search takes at most: its table of times grows with their square, to 110 MB here.
inline constexpr std::size_t kMostExactLayers = 3000;

class IntervalTable;

/// Times of micro-batches of two sizes, the larger ones first in the step.
struct TwoSizes {
    std::shared_ptr<const IntervalTable> larger, smaller;
    std::vector<std::int64_t> copy_larger_ns, copy_smaller_ns;  ///< across a cut behind each layer, either way
    int num_larger = 0;
};

/// What to cut, and into what: one step of GPipe with m equal micro-batches, partition j on a lane of its own.
struct PartitionProblem {
    int partitions = 1;
    int micro_batches = 1;
    Checkpoint checkpoint = Checkpoint::except_last;
    // Of one micro-batch, per layer, in ns at speed 1.
    std::vector<double> forward_ns;
    std::vector<double> recompute_ns;
    std::vector<double> backward_ns;
    // Across a cut behind layer l, in ns; one fewer than layers, or empty for free copies.
    std::vector<std::int64_t> copy_forward_ns;
    std::vector<std::int64_t> copy_backward_ns;
    std::vector<bool> free_boundary;  ///< of partitions j and j + 1, if they share a device; empty: none is free
    std::vector<double> speeds;       ///< of each partition's lane; empty: all 1
    std::int64_t loss_ns = 0;
    /// What the lane of a partition holds at most, and the limit of each partition's lane. Both or neither.
    std::function<Bytes(PartitionId, LayerRange)> peak_bytes;
    std::vector<Bytes> memory_limits;  ///< empty: none
    /// A quick proof that a range of layers, and every longer one around it, is over its lane's limit. May be empty.
    std::function<bool(PartitionId, LayerRange)> exceeds_limit;
    /// The times of all ranges, if another problem with the same layers and speeds has them already.
    std::shared_ptr<const IntervalTable> intervals;
    /// Where micro-batches differ in size. The arrays above then hold whichever is less, and the step is a lower bound.
    std::optional<TwoSizes> two_sizes;
};
/// By how much the limit of this lane is below the largest of all; 0 where there is none. What lanes need with their
/// gaps added can be held against one limit.
Bytes limit_gap(const std::vector<Bytes>& memory_limits, std::size_t lane);
/// Whether a partition may be made of these layers.
bool keeps_limit(const PartitionProblem& problem, std::size_t partition, std::size_t first, std::size_t end);

struct RankedBalance {
    Balance balance;
    std::int64_t step_ns = 0;

    friend bool operator==(const RankedBalance&, const RankedBalance&) = default;
};

/// The balance with the shortest GPipe step, exactly, to the rounded nanosecond of a simulated step; behind it other
/// cuts that were not ruled out, shortest first, at most `most`. Empty if no cut keeps the memory limit.
///
/// Problem: where to cut a chain so that the makespan, not the largest part, is smallest. Idea: by the closed form of
/// gpipe_step() the step is a sum over partitions and cuts plus (m - 1) times two bottlenecks, one of the forward, one
/// of the backward phase. So of all ways to cut a prefix only those matter that no other beats in (sum, forward
/// bottleneck, backward bottleneck) at once: dynamic programming over such labels, pruned by an upper bound from
/// min-max cuts and by exact lower bounds for what is still to be cut. With `always` one more number takes part, since
/// a late partition's recompute can be the start of the critical path. Cost: milliseconds for 400 layers on 16
/// partitions. Deterministic. Throws BalanceError unless 1 <= partitions <= layers.
std::vector<RankedBalance> optimal_partitions(const PartitionProblem& problem, std::size_t most = 1);

/// The step of one balance, in ns, by closed form: GPipe, a barrier at the loss, backward from the last micro-batch on,
/// serial links, recompute ahead of the gradient's arrival. With f, b, r of the partitions and c, g of the copies:
///
///     forward   sum f + sum c + (m - 1) max(max f, max c)
///     backward  never        sum b + sum g + (m - 1) max(max b, max g)
///               except_last  sum b + sum g + (m - 1) max(max (r + b), max g)
///               always       max over k of r_k + sum_{j<=k} b_j + sum_{j<k} g_j
///                                          + (m - 1) max(max_{j<=k} (r_j + b_j), max_{j<k} g_j)
///
/// The forward phase is a flow shop of equal jobs; so is the backward phase, from the partition k on whose recompute is
/// the last to matter.
std::int64_t gpipe_step(const PartitionProblem& problem, const Balance& balance);

/// The smallest limit under which some cut is possible; where the problem's limits differ, that of its largest lane if
/// all are raised, or lowered, by as many bytes. Precondition: problem.peak_bytes is set.
Bytes smallest_memory_limit(const PartitionProblem& problem, Balance* balance = nullptr);
}  // namespace pipescope
