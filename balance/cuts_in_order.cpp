#include "balance/cuts_in_order.h"

#include "balance/contiguous_partition.h"
#include "balance/partition_table.h"
#include "base/stop_check.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipescope {
namespace {
void add_too_long(CutOrder& order, const PartitionProblem& problem) {
    if (problem.exceeds_limit) {
        order.too_long = [&problem](std::size_t p, std::size_t first, std::size_t end) {
            return problem.exceeds_limit(id_of(p), range_of(first, end));
        };
    }
}
}  // namespace

CutOrder order_by_step(const PartitionProblem& problem, const PartitionTable& table) {
    CutOrder order;
    order.layers = table.layers();
    order.partitions = static_cast<std::size_t>(problem.partitions);
    order.constant = problem.loss_ns;
    order.always = problem.checkpoint == Checkpoint::always;
    if (table.keeps_last()) {
        order.repeats = problem.micro_batches - 2;
    }
    order.cost = [&problem, &table](std::size_t p, std::size_t first, std::size_t end) -> std::optional<CutCost> {
        if (!keeps_limit(problem, p, first, end)) {
            return std::nullopt;
        }
        const IntervalTimes& times = table.at(p, first, end);
        const std::int64_t c = table.copy_forward(p, first);
        const std::int64_t g = table.copy_backward(p, first);
        const PartitionTable::Others others = table.others(p, first, end);
        const std::int64_t kept = table.keeps_last() ? table.kept_forward(p, first, end) : 0;
        return CutCost{times.forward + c, times.backward + g, others.forward,
                       others.backward,   times.recompute,    {c, times.forward, kept}};
    };
    add_too_long(order, problem);
    return order;
}

CutOrder order_by_peak(const PartitionProblem& problem) {
    CutOrder order;
    order.layers = problem.forward_ns.size();
    order.partitions = static_cast<std::size_t>(problem.partitions);
    order.cost = [&problem](std::size_t p, std::size_t first, std::size_t end) -> std::optional<CutCost> {
        const Bytes gap = limit_gap(problem.memory_limits, p);
        return CutCost{0, 0, problem.peak_bytes(id_of(p), range_of(first, end)) + gap, 0, 0};
    };
    add_too_long(order, problem);
    return order;
}

CutsInOrder::CutsInOrder(CutOrder order, std::int64_t below, std::size_t most_nodes)
    : order_(std::move(order)), below_(std::min(below, kUnreachable)), most_nodes_(most_nodes) {
    find_least();
    Node end;
    end.partition = static_cast<std::int32_t>(order_.partitions);
    end.first = static_cast<std::int32_t>(order_.layers);
    end.bound = bound_of(end);
    if (end.bound < below_) {
        nodes_.push_back(end);
        queue_.push({end.bound, end.partition, 0});
    }
}

/// Minimum of each quantity over all ways to cut the layers up to `end` into the first q partitions.
void CutsInOrder::find_least() {
    const std::size_t n = order_.partitions;
    const std::size_t layers = order_.layers;
    least_.assign((n + 1) * (layers + 1),
                  {kUnreachable, kUnreachable, kUnreachable, kUnreachable, kUnreachable, kUnreachable});
    least(0, 0) = {0, 0, 0, 0, 0, 0};
    for (std::size_t q = 0; q < n; ++q) {
        const std::size_t last_end = layers - (n - q - 1);
        for (std::size_t first = q; first < layers && (q > 0 || first == 0); ++first) {
            const Least before = least(q, first);
            if (before.sum >= kUnreachable) {
                continue;
            }
            for (std::size_t end = q + 1 == n ? layers : first + 1; end <= last_end; ++end) {
                if (order_.too_long && order_.too_long(q, first, end)) {
                    break;
                }
                const std::optional<CutCost> cost = order_.cost(q, first, end);
                if (!cost) {
                    continue;
                }
                if (std::max(before.forward, cost->forward) >= below_) {
                    continue;
                }
                Least& best = least(q + 1, end);
                best.forward_sum = std::min(best.forward_sum, before.forward_sum + cost->forward_sum);
                best.backward_sum = std::min(best.backward_sum, before.backward_sum + cost->backward_sum);
                best.sum = std::min(best.sum, before.sum + cost->forward_sum + cost->backward_sum);
                best.forward = std::min(best.forward, std::max(before.forward, cost->forward));
                best.backward = std::min(best.backward, std::max(before.backward, cost->backward));
                if (order_.repeats) {
                    best.way = std::min(best.way, way_of_last(before.way, before.forward_sum, before.forward,
                                                              cost->kept, *order_.repeats));
                }
            }
        }
    }
}

std::int64_t CutsInOrder::bound_of(const Node& node) {
    const Least& before = least(static_cast<std::size_t>(node.partition), static_cast<std::size_t>(node.first));
    if (before.sum >= kUnreachable) {
        return kUnreachable;
    }
    const std::int64_t forward = std::max(before.forward, node.forward);
    if (order_.always) {
        return order_.constant + before.forward_sum + node.forward_sum + forward + always_backward(node, before);
    }
    const std::int64_t backward = std::max(before.backward, node.backward);
    const std::int64_t bound = order_.constant + before.sum + node.forward_sum + node.backward_sum + forward + backward;
    return order_.repeats ? std::max(bound, order_.constant + way_of_last_through(node, before) + before.backward_sum +
                                                node.backward_sum + backward)
                          : bound;
}

/// Longest way to the end of the last micro-batch's forward.
std::int64_t CutsInOrder::way_of_last_through(const Node& node, const Least& before) const {
    std::int64_t way = before.way;
    std::int64_t sum = before.forward_sum;
    std::int64_t bottleneck = before.forward;
    for (const Node* each = &node; each->partition < static_cast<std::int32_t>(order_.partitions);
         each = &nodes_[static_cast<std::size_t>(each->behind)]) {
        way = way_of_last(way, sum, bottleneck, each->own.kept, *order_.repeats);
        sum += each->own.forward_sum;
        bottleneck = std::max(bottleneck, each->own.forward);
    }
    return way;
}

/// Longest path through the backward phase that starts with the recompute of one of the node's partitions or of an
/// earlier partition.
std::int64_t CutsInOrder::always_backward(const Node& node, const Least& before) const {
    std::int64_t longest = before.backward_sum + before.backward;
    std::int64_t sum = before.backward_sum;
    std::int64_t bottleneck = before.backward;
    for (const Node* each = &node; each->partition < static_cast<std::int32_t>(order_.partitions);
         each = &nodes_[static_cast<std::size_t>(each->behind)]) {
        sum += each->own.backward_sum;
        bottleneck = std::max(bottleneck, each->own.backward);
        longest = std::max(longest, each->own.recompute + sum + bottleneck);
    }
    return longest;
}

std::optional<RankedBalance> CutsInOrder::next() {
    while (!queue_.empty() && !gave_up_) {
        check_stop();
        const Entry top = queue_.top();
        queue_.pop();
        if (top.partition > 0) {
            expand(top.node);
            if (nodes_.size() > most_nodes_) {
                gave_up_ = true;
            }
            continue;
        }
        std::vector<std::size_t> starts;
        for (std::int32_t node = top.node; node >= 0; node = nodes_[static_cast<std::size_t>(node)].behind) {
            starts.push_back(static_cast<std::size_t>(nodes_[static_cast<std::size_t>(node)].first));
        }
        starts.pop_back();  // the root, which stands for the end of the model
        return RankedBalance{balance_of_starts(starts, order_.layers), top.bound};
    }
    return std::nullopt;
}

std::int64_t CutsInOrder::lower_bound() const {
    return queue_.empty() ? below_ : queue_.top().bound;
}

void CutsInOrder::expand(std::int32_t index) {
    const Node behind = nodes_[static_cast<std::size_t>(index)];
    const auto partition = static_cast<std::size_t>(behind.partition) - 1;
    const auto end = static_cast<std::size_t>(behind.first);
    for (std::size_t first = partition == 0 ? 0 : end - 1; first + 1 > partition; --first) {
        if (order_.too_long && order_.too_long(partition, first, end)) {
            break;  // ranges that start earlier are longer still
        }
        const std::optional<CutCost> cost = order_.cost(partition, first, end);
        if (cost) {
            Node node;
            node.behind = index;
            node.partition = static_cast<std::int32_t>(partition);
            node.first = static_cast<std::int32_t>(first);
            node.own = *cost;
            node.forward_sum = behind.forward_sum + cost->forward_sum;
            node.backward_sum = behind.backward_sum + cost->backward_sum;
            node.forward = std::max(behind.forward, cost->forward);
            node.backward = std::max(behind.backward, cost->backward);
            node.bound = std::max(behind.bound, bound_of(node));
            if (node.bound < below_) {
                queue_.push({node.bound, node.partition, static_cast<std::int32_t>(nodes_.size())});
                nodes_.push_back(node);
            }
        }
        if (first == 0) {
            break;
        }
    }
}
}  // namespace pipescope
