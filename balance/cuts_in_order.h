#pragma once

#include "balance/optimal_partition.h"
#include "balance/partition_table.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

namespace pipescope {
/// Contribution of one partition to the cost of a cut: its tasks, and the copies between it and the partition before.
struct CutCost {
    std::int64_t forward_sum = 0;
    std::int64_t backward_sum = 0;
    std::int64_t forward = 0;    ///< candidate for the forward bottleneck
    std::int64_t backward = 0;   ///< candidate for the backward bottleneck
    std::int64_t recompute = 0;  ///< only if every micro-batch is recomputed
    KeptTimes kept = {};         ///< only if the last micro-batch's forward takes a different time
};

/// Defines the order of cuts. A cut costs what gpipe_step() computes: sums, and two bottlenecks.
struct CutOrder {
    std::size_t layers = 0;
    std::size_t partitions = 1;
    std::int64_t constant = 0;
    bool always = false;  ///< mode always: a late partition's recompute may start the critical path
    /// Set if the last micro-batch's forward takes a different time: m - 2, the number of micro-batches between first
    /// and last.
    std::optional<std::int64_t> repeats = {};
    /// Cost of a range of layers as a partition. Empty if no cut may contain it.
    std::function<std::optional<CutCost>(std::size_t partition, std::size_t first, std::size_t end)> cost;
    /// True if all longer ranges from the same first layer are ruled out too. May be empty.
    std::function<bool(std::size_t partition, std::size_t first, std::size_t end)> too_long;
};
/// Orders by the step time of `problem`, within its memory limit. Borrows both arguments.
CutOrder order_by_step(const PartitionProblem& problem, const PartitionTable& table);
/// Orders by the maximum over partitions of problem.peak_bytes plus the lane's limit_gap(). Borrows `problem`.
CutOrder order_by_peak(const PartitionProblem& problem);

/// Enumerates all cuts one at a time, cheapest first. Use it if the cost alone does not decide, for example because
/// tensors that wait for a slower neighbour must fit too.
///
/// Idea: best-first search over suffixes (the last partitions are placed, the first are still open). Its bound is the
/// least that any cut of the open layers must add. Deterministic; memory and time grow with the number of cuts
/// requested. Threading: one thread at a time.
class CutsInOrder {
public:
    /// Yields only cuts that cost less than `below`. Gives up after `most_nodes` suffixes.
    CutsInOrder(CutOrder order, std::int64_t below, std::size_t most_nodes);

    /// The next cut. Empty if none is left or the nodes are used up.
    std::optional<RankedBalance> next();
    /// Lower bound of the cost of all cuts that next() has not returned yet; `below` once all were returned.
    std::int64_t lower_bound() const;

    /// True if next() ended because no cut is left, not because the nodes are used up.
    bool is_exhausted() const { return queue_.empty() && !gave_up_; }

private:
    struct Least {
        std::int64_t forward_sum, backward_sum, sum, forward, backward, way;
    };
    struct Node {
        std::int64_t bound = 0;
        std::int64_t forward_sum = 0, backward_sum = 0, forward = 0, backward = 0;
        std::int32_t behind = -1;  // node of the later partitions
        std::int32_t partition = 0;
        std::int32_t first = 0;
        CutCost own;
    };
    struct Entry {
        std::int64_t bound;
        std::int32_t partition;
        std::int32_t node;
        // The queue's top is its largest element: the cheapest, and of these the nearest the end.
        bool operator<(const Entry& other) const {
            return std::tie(bound, partition, node) > std::tie(other.bound, other.partition, other.node);
        }
    };
    void find_least();
    Least& least(std::size_t partitions, std::size_t end) { return least_[partitions * (order_.layers + 1) + end]; }
    std::int64_t bound_of(const Node& node);
    std::int64_t always_backward(const Node& node, const Least& before) const;
    std::int64_t way_of_last_through(const Node& node, const Least& before) const;
    void expand(std::int32_t index);

    CutOrder order_;
    std::int64_t below_;
    std::size_t most_nodes_;
    bool gave_up_ = false;
    std::vector<Least> least_;  // by number of first partitions and number of layers they cover
    std::vector<Node> nodes_;
    std::priority_queue<Entry> queue_;
};
}  // namespace pipescope
