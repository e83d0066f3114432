#pragma once

#include "balance/optimal_partition.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

namespace pipescope {
class PartitionTable;

/// What one partition contributes to the cost of a cut: its own tasks, and the copies between it and the one before.
struct CutCost {
    std::int64_t forward_sum = 0;
    std::int64_t backward_sum = 0;
    std::int64_t forward = 0;    ///< candidate for the forward bottleneck
    std::int64_t backward = 0;   ///< candidate for the backward bottleneck
    std::int64_t recompute = 0;  ///< only where every micro-batch is recomputed
};

/// What to put in order. The cost of a cut is that of gpipe_step(): sums, and two bottlenecks.
struct CutOrder {
    std::size_t layers = 0;
    std::size_t partitions = 1;
    std::int64_t constant = 0;
    bool always = false;  ///< mode always: a late partition's recompute may start the critical path
    /// Of a partition's range of layers; nothing if no cut may have it.
    std::function<std::optional<CutCost>(std::size_t partition, std::size_t first, std::size_t end)> cost;
    /// Whether every longer range from the same first layer is ruled out too; may be empty.
    std::function<bool(std::size_t partition, std::size_t first, std::size_t end)> too_long;
};
/// By the step of `problem`, its memory limit kept. Both arguments are borrowed.
CutOrder order_by_step(const PartitionProblem& problem, const PartitionTable& table);
/// By the largest of problem.peak_bytes over the partitions, each with its lane's limit_gap(). Borrowed as above.
CutOrder order_by_peak(const PartitionProblem& problem);

/// All ways to cut, the cheapest first, one at a time: for what the cost alone does not decide, such as whether tensors
/// that wait for a slower neighbour still fit.
///
/// Idea: best-first search over suffixes (the last partitions placed, the first still open), bounded by the least that
/// any cut of the open layers must add. From the back, because what a lane holds in the backward phase depends on the
/// partitions behind it only: once one such suffix is found not to fit, forbid_suffix() rules out all cuts that share
/// it. Deterministic; memory and time grow with the cuts asked for. Threading: one thread at a time.
class CutsInOrder {
public:
    /// Only cuts that cost less than `below`. Gives up after `most_nodes` suffixes.
    CutsInOrder(CutOrder order, std::int64_t below, std::size_t most_nodes);

    /// The next cut; nothing when there is none left, or the nodes are used up.
    std::optional<RankedBalance> next();
    /// No cut that next() has not returned yet costs less; `below` once all were returned.
    std::int64_t lower_bound() const;

    /// next() found nothing because nothing is left, not because the nodes were used up.
    bool is_exhausted() const { return queue_.empty() && !gave_up_; }

    /// Leaves out every later cut whose partitions `from`.. are those of `balance`.
    void forbid_suffix(const Balance& balance, PartitionId from);
    /// Leaves out every later cut whose partitions up to `last` are those of `balance`.
    void forbid_prefix(const Balance& balance, PartitionId last);

private:
    struct Least {
        std::int64_t forward_sum, backward_sum, sum, forward, backward;
    };
    struct Node {
        std::int64_t bound = 0;
        std::int64_t forward_sum = 0, backward_sum = 0, forward = 0, backward = 0, recompute = 0;
        std::int32_t behind = -1;  // node of the partitions behind
        std::int32_t partition = 0;
        std::int32_t first = 0;
        CutCost own;
    };
    struct Entry {
        std::int64_t bound;
        std::int32_t partition;
        std::int32_t node;
        bool operator<(const Entry& other) const {  // the queue's top is its largest: the cheapest, nearest the end
            return std::tie(bound, partition, node) > std::tie(other.bound, other.partition, other.node);
        }
    };
    void find_least();
    Least& least(std::size_t partitions, std::size_t end) { return least_[partitions * (order_.layers + 1) + end]; }
    std::int64_t bound_of(const Node& node);
    std::int64_t always_backward(const Node& node, const Least& before) const;
    void expand(std::int32_t index);
    std::vector<std::int32_t> starts_of(const Node& node) const;
    bool is_forbidden(const Node& node) const;
    bool prefix_is_forbidden(const std::vector<std::int32_t>& starts) const;

    CutOrder order_;
    std::int64_t below_;
    std::size_t most_nodes_;
    bool gave_up_ = false;
    std::vector<Least> least_;  // by number of first partitions and the layers they cover
    std::vector<Node> nodes_;
    std::priority_queue<Entry> queue_;
    std::set<std::vector<std::int32_t>> forbidden_suffixes_;  // first layers of the partitions
    std::set<std::vector<std::int32_t>> forbidden_prefixes_;  // ends of the partitions
};
}  // namespace pipescope
