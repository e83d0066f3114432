#include "balance/optimal_partition.h"

#include "balance/contiguous_partition.h"
#include "balance/partition_table.h"
#include "base/stop_check.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace pipescope {
namespace {
/// A partial cut into the first partitions, reduced to what affects the rest of the step.
struct Label {
    std::int64_t sum = 0;  ///< sum of all f, b, c, g so far
    /// Mode always: forward sum plus longest backward so far. If the last micro-batch's forward takes a different time:
    /// the longest way to its end, plus all b and g so far. Otherwise 0.
    std::int64_t path = 0;
    std::int64_t forward = 0;   ///< bottleneck of the forward phase: PartitionTable::Others
    std::int64_t backward = 0;  ///< bottleneck of the backward phase
    std::int32_t before = -1;   ///< the label that this one extends
    std::int32_t end = 0;       ///< number of layers used

    bool beats(const Label& other) const {
        return sum <= other.sum && forward <= other.forward && backward <= other.backward && path <= other.path;
    }
};

/// Minimum that any cut of the remaining layers must add.
struct Rest {
    std::int64_t sum = kUnreachable;       ///< with q: sum of min(f, q)
    std::int64_t kept_sum = kUnreachable;  ///< sum of q, c, b, g
    std::int64_t forward_sum = kUnreachable;
    std::int64_t forward = kUnreachable;  ///< with q: for all micro-batches
    std::int64_t backward = kUnreachable;
};

class Search {
public:
    Search(const PartitionProblem& problem, const PartitionTable& table)
        : problem_(problem),
          table_(table),
          n_(static_cast<std::size_t>(problem.partitions)),
          layers_(table.layers()),
          is_always_(problem.checkpoint == Checkpoint::always),
          keeps_last_(table.keeps_last()),
          repeats_(problem.micro_batches - 2) {}

    Label append(const Label& label, std::size_t partition, std::size_t end) const {
        const auto first = static_cast<std::size_t>(label.end);
        const IntervalTimes& times = table_.at(partition, first, end);
        const std::int64_t c = table_.copy_forward(partition, first);
        const std::int64_t g = table_.copy_backward(partition, first);
        const PartitionTable::Others others = table_.others(partition, first, end);
        Label next = label;
        next.sum += times.forward + times.backward + c + g;
        next.forward = std::max(label.forward, others.forward);
        next.backward = std::max(label.backward, others.backward);
        if (is_always_) {
            next.path = std::max(label.path + times.forward + c, next.sum + times.recompute + next.backward);
        }
        if (keeps_last_) {
            const std::int64_t q = table_.kept_forward(partition, first, end);
            next.path =
                way_of_last(label.path, label.sum, label.forward, {c, times.forward, q}, repeats_) + times.backward + g;
        }
        next.end = static_cast<std::int32_t>(end);
        return next;
    }

    std::int64_t step(const Label& label) const {
        if (keeps_last_) {
            return problem_.loss_ns + label.path + label.backward;
        }
        return problem_.loss_ns + label.forward + (is_always_ ? label.path : label.sum + label.backward);
    }

    bool allows(std::size_t partition, std::size_t first, std::size_t end) const {
        return keeps_limit(problem_, partition, first, end);
    }
    bool exceeds(std::size_t partition, std::size_t first, std::size_t end) const {
        return problem_.exceeds_limit && problem_.exceeds_limit(id_of(partition), range_of(first, end));
    }

    std::vector<RankedBalance> run(std::size_t most) {
        std::vector<RankedBalance> found = min_max_cuts();
        if (found.empty() && !problem_.memory_limits.empty()) {
            if (const std::optional<Balance> balance = min_max_within_limit()) {
                found.push_back({*balance, *step_of(*balance)});
            }
        }
        for (const RankedBalance& each : found) {
            incumbent_ = std::min(incumbent_, each.step_ns);
        }
        find_rests();
        if (step_at_least({}, 0) < incumbent_) {
            extend_labels(found);
        }
        std::ranges::stable_sort(found,
                                 [](const RankedBalance& a, const RankedBalance& b) { return a.step_ns < b.step_ns; });
        found.erase(std::unique(found.begin(), found.end()), found.end());
        if (found.size() > most) {
            found.erase(found.begin() + static_cast<std::ptrdiff_t>(most), found.end());
        }
        return found;
    }

    std::optional<std::int64_t> step_of(const Balance& balance) const {
        Label label;
        for (std::size_t j = 0; j < n_; ++j) {
            const std::size_t end = balance.layers_of(PartitionId{j}).end.index();
            if (!allows(j, static_cast<std::size_t>(label.end), end)) {
                return std::nullopt;
            }
            label = append(label, j, end);
        }
        return step(label);
    }

private:
    /// Cuts balanced by forward, by backward and by both. They are close to the optimum, so their step is an upper
    /// bound that prunes most of the search.
    std::vector<RankedBalance> min_max_cuts() const {
        std::vector<double> backward = problem_.backward_ns;
        std::vector<double> both = problem_.forward_ns;
        for (std::size_t l = 0; l < layers_; ++l) {
            backward[l] += problem_.checkpoint == Checkpoint::never ? 0 : problem_.recompute_ns[l];
            both[l] += backward[l];
        }
        std::vector<RankedBalance> found;
        for (const std::span<const double> costs : {std::span<const double>(both), std::span<const double>(backward),
                                                    std::span<const double>(problem_.forward_ns)}) {
            const Balance balance = minmax_partition(costs, problem_.partitions);
            if (const std::optional<std::int64_t> step_ns = step_of(balance)) {
                found.push_back({balance, *step_ns});
            }
        }
        return found;
    }

    /// Among the cuts within the limit, the one whose heaviest partition (forward plus backward) is lightest.
    std::optional<Balance> min_max_within_limit() const {
        std::vector<std::int64_t> heaviest((n_ + 1) * (layers_ + 1),
                                           kUnreachable);  // for partition p and all later ones
        std::vector<std::size_t> chosen(heaviest.size());
        const auto at = [&](std::size_t p, std::size_t first) { return p * (layers_ + 1) + first; };
        heaviest[at(n_, layers_)] = 0;
        for (std::size_t p = n_; p-- > 0;) {
            const auto [first_from, first_to] = starts(p);
            for (std::size_t first = first_from; first <= first_to; ++first) {
                check_stop();
                std::int64_t& least = heaviest[at(p, first)];
                const auto [from, to] = ends(p, first);
                for (std::size_t end = from; end <= to; ++end) {
                    const PartitionTable::Others others = table_.others(p, first, end);
                    const std::int64_t work = others.forward + others.backward;
                    if (work >= least || exceeds(p, first, end)) {
                        break;  // longer ranges are heavier still
                    }
                    const std::int64_t most = std::max(work, heaviest[at(p + 1, end)]);
                    if (most < least && allows(p, first, end)) {
                        least = most;
                        chosen[at(p, first)] = end;
                    }
                }
            }
        }
        if (heaviest[at(0, 0)] >= kUnreachable) {
            return std::nullopt;
        }
        std::vector<std::size_t> starts;
        for (std::size_t p = 0, first = 0; p < n_; first = chosen[at(p, first)], ++p) {
            starts.push_back(first);
        }
        return balance_of_starts(starts, layers_);
    }

    /// Range of possible first layers of partition p: one layer for each earlier partition, one left for p and each
    /// later one.
    std::pair<std::size_t, std::size_t> starts(std::size_t partition) const {
        return partition == 0 ? std::pair<std::size_t, std::size_t>{0, 0}
                              : std::pair<std::size_t, std::size_t>{partition, layers_ - (n_ - partition)};
    }
    /// Range of possible ends of a partition that starts at `first`.
    std::pair<std::size_t, std::size_t> ends(std::size_t partition, std::size_t first) const {
        return partition + 1 == n_ ? std::pair<std::size_t, std::size_t>{layers_, layers_}
                                   : std::pair<std::size_t, std::size_t>{first + 1, layers_ - (n_ - partition - 1)};
    }

    Rest& rest(std::size_t partition, std::size_t first) { return rests_[partition * (layers_ + 1) + first]; }
    const Rest& rest(std::size_t partition, std::size_t first) const {
        return rests_[partition * (layers_ + 1) + first];
    }

    void find_rests() {
        rests_.assign((n_ + 1) * (layers_ + 1), Rest{});
        rest(n_, layers_) = {0, 0, 0, 0, 0};
        for (std::size_t p = n_; p-- > 0;) {
            const auto [first_from, first_to] = starts(p);
            for (std::size_t first = first_from; first <= first_to; ++first) {
                check_stop();
                Rest& best = rest(p, first);
                const std::int64_t c = table_.copy_forward(p, first);
                const std::int64_t g = table_.copy_backward(p, first);
                const auto [from, to] = ends(p, first);
                for (std::size_t end = from; end <= to; ++end) {
                    const IntervalTimes& times = table_.at(p, first, end);
                    const PartitionTable::Others others = table_.others(p, first, end);
                    // A step takes at least the sum of both bottlenecks. Longer partitions are heavier still.
                    if (others.forward + others.backward > incumbent_ || exceeds(p, first, end)) {
                        break;
                    }
                    const Rest& then = rest(p + 1, end);
                    if (then.sum >= kUnreachable || !allows(p, first, end)) {
                        continue;
                    }
                    const std::int64_t q = keeps_last_ ? table_.kept_forward(p, first, end) : times.forward;
                    const std::int64_t others_forward =
                        keeps_last_ ? std::max(repeats_ * times.forward + q, (repeats_ + 1) * c) : others.forward;
                    best.sum = std::min(best.sum, std::min(times.forward, q) + times.backward + c + g + then.sum);
                    best.kept_sum = std::min(best.kept_sum, q + times.backward + c + g + then.kept_sum);
                    best.forward_sum = std::min(best.forward_sum, times.forward + c + then.forward_sum);
                    best.forward = std::min(best.forward, std::max(others_forward, then.forward));
                    best.backward = std::min(best.backward, std::max(others.backward, then.backward));
                }
            }
        }
    }

    /// Lower bound of all steps that extend the label, which covers partitions 0 .. partition - 1.
    std::int64_t step_at_least(const Label& label, std::size_t partition) const {
        const Rest& then = rest(partition, static_cast<std::size_t>(label.end));
        if (then.sum >= kUnreachable) {
            return kUnreachable;
        }
        if (keeps_last_) {
            return problem_.loss_ns + std::max(label.path + then.kept_sum, label.sum + then.sum + then.forward) +
                   std::max(label.backward, then.backward);
        }
        const std::int64_t forward = std::max(label.forward, then.forward);
        const std::int64_t backward = label.sum + then.sum + std::max(label.backward, then.backward);
        return problem_.loss_ns + forward + (is_always_ ? std::max(label.path + then.forward_sum, backward) : backward);
    }

    void extend_labels(std::vector<RankedBalance>& found) {
        labels_.push_back({});
        std::vector<std::vector<std::int32_t>> here(layers_ + 1);  // labels by number of layers used
        here[0].push_back(0);
        for (std::size_t p = 0; p < n_; ++p) {
            std::vector<std::vector<std::int32_t>> next(layers_ + 1);
            for (std::size_t first = 0; first <= layers_; ++first) {
                for (const std::int32_t index : here[first]) {
                    check_stop();
                    extend(index, p, next);
                }
            }
            here = std::move(next);
        }
        for (const std::int32_t index : here[layers_]) {
            found.push_back({balance_of(index), step(labels_[static_cast<std::size_t>(index)])});
        }
    }

    void extend(std::int32_t index, std::size_t partition, std::vector<std::vector<std::int32_t>>& next) {
        const Label label = labels_[static_cast<std::size_t>(index)];
        const auto first = static_cast<std::size_t>(label.end);
        const auto [from, to] = ends(partition, first);
        const Rest& remaining = rest(partition, first);
        for (std::size_t end = from; end <= to; ++end) {
            Label longer = append(label, partition, end);
            // Both bottlenecks only grow with the partition, so no longer partition is better.
            const std::int64_t least = problem_.loss_ns + label.sum + remaining.sum + longer.forward + longer.backward;
            if (least >= incumbent_) {
                break;
            }
            if (step_at_least(longer, partition + 1) >= incumbent_ || !allows(partition, first, end)) {
                continue;
            }
            longer.before = index;
            keep(longer, next[end]);
        }
    }

    void keep(const Label& label, std::vector<std::int32_t>& rivals) {
        const auto of = [&](std::int32_t index) -> const Label& { return labels_[static_cast<std::size_t>(index)]; };
        if (std::ranges::any_of(rivals, [&](std::int32_t index) { return of(index).beats(label); })) {
            return;
        }
        std::erase_if(rivals, [&](std::int32_t index) { return label.beats(of(index)); });
        rivals.push_back(static_cast<std::int32_t>(labels_.size()));
        labels_.push_back(label);
    }

    Balance balance_of(std::int32_t index) const {
        std::vector<std::size_t> starts;
        while ((index = labels_[static_cast<std::size_t>(index)].before) >= 0) {
            starts.push_back(static_cast<std::size_t>(labels_[static_cast<std::size_t>(index)].end));
        }
        std::ranges::reverse(starts);
        return balance_of_starts(starts, layers_);
    }

    const PartitionProblem& problem_;
    const PartitionTable& table_;
    std::size_t n_;
    std::size_t layers_;
    bool is_always_;
    bool keeps_last_;
    std::int64_t repeats_;  // m - 2
    std::int64_t incumbent_ = kUnreachable;
    std::vector<Rest> rests_;  // by partition and its first layer
    std::vector<Label> labels_;
};
}  // namespace

Bytes limit_gap(const std::vector<Bytes>& memory_limits, std::size_t lane) {
    return memory_limits.empty() ? 0 : *std::ranges::max_element(memory_limits) - memory_limits[lane];
}

bool keeps_limit(const PartitionProblem& problem, std::size_t partition, std::size_t first, std::size_t end) {
    return problem.memory_limits.empty() ||
           problem.peak_bytes(id_of(partition), range_of(first, end)) <= problem.memory_limits[partition];
}

std::vector<RankedBalance> optimal_partitions(const PartitionProblem& problem, std::size_t most) {
    const PartitionTable table(problem);
    return Search(problem, table).run(most);
}

std::int64_t gpipe_step(const PartitionProblem& problem, const Balance& balance) {
    PartitionProblem unlimited = problem;
    unlimited.memory_limits.clear();
    unlimited.exceeds_limit = nullptr;
    unlimited.partitions = static_cast<int>(balance.num_partitions());
    balance.check_covers(problem.forward_ns.size());
    const PartitionTable table(unlimited);
    return *Search(unlimited, table).step_of(balance);
}

Bytes smallest_memory_limit(const PartitionProblem& problem, Balance* balance) {
    check_partition_request(problem.forward_ns, problem.partitions);
    const std::size_t layers = problem.forward_ns.size();
    const auto n = static_cast<std::size_t>(problem.partitions);
    constexpr Bytes kNone = std::numeric_limits<Bytes>::max();
    // least[end]: smallest maximum over lanes, among the ways to cut the layers up to `end` into the partitions so far
    std::vector<Bytes> least(layers + 1, kNone);
    least[0] = 0;
    std::vector<std::vector<std::size_t>> start(n, std::vector<std::size_t>(layers + 1, 0));
    for (std::size_t p = 0; p < n; ++p) {
        std::vector<Bytes> next(layers + 1, kNone);
        const Bytes gap = limit_gap(problem.memory_limits, p);
        for (std::size_t first = p; first < layers; ++first) {
            const std::size_t from = p + 1 == n ? layers : first + 1;  // the last partition ends with the model
            for (std::size_t end = from; least[first] != kNone && end <= layers - (n - p - 1); ++end) {
                const Bytes bytes = problem.peak_bytes(id_of(p), range_of(first, end)) + gap;
                if (const Bytes most = std::max(least[first], bytes); most < next[end]) {
                    next[end] = most;
                    start[p][end] = first;
                }
            }
        }
        least = std::move(next);
    }
    if (balance != nullptr) {
        std::vector<std::size_t> starts(n);
        std::size_t end = layers;
        for (std::size_t p = n; p-- > 0;) {
            end = starts[p] = start[p][end];
        }
        *balance = balance_of_starts(starts, layers);
    }
    return least[layers];
}
}  // namespace pipescope
