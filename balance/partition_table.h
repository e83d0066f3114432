#pragma once

#include "balance/optimal_partition.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// Longer than any step; sums of several stay representable.
inline constexpr std::int64_t kUnreachable = std::numeric_limits<std::int64_t>::max() / 8;

inline LayerRange range_of(std::size_t first, std::size_t end) {
    return {LayerId{first}, LayerId{end}};
}
inline PartitionId id_of(std::size_t partition) {
    return PartitionId{partition};
}

/// Times of one candidate partition, rounded to ns like a simulated step.
struct IntervalTimes {
    std::int64_t forward = 0;
    std::int64_t recompute = 0;
    std::int64_t backward = 0;
};

/// Times at one partition: the copy to it, its forward, and the last micro-batch's forward.
struct KeptTimes {
    std::int64_t copy = 0;
    std::int64_t forward = 0;
    std::int64_t kept_forward = 0;
};
/// The longest way to the end of the last micro-batch's forward on a partition, if that forward takes a different time
/// (gpipe_step()). Given for the partitions before: `way`, the longest way there; `sum`, the other micro-batches'
/// times; and `bottleneck`, the largest time x `repeats` (m - 2).
inline std::int64_t way_of_last(std::int64_t way, std::int64_t sum, std::int64_t bottleneck, const KeptTimes& times,
                                std::int64_t repeats) {
    const auto& [copy, forward, kept] = times;
    const std::int64_t at_link = std::max(bottleneck, repeats * copy);
    const std::int64_t over_link = std::max(way + copy, sum + copy + at_link + copy);
    return std::max(over_link + kept, sum + copy + forward + std::max(at_link, repeats * forward) + kept);
}

/// Times of every range of layers at every speed. Problems with the same layers and speeds may share a table.
/// Threading: immutable.
class IntervalTable {
public:
    /// Precondition: the spans have equal length. `speeds` may contain duplicates. `kept_forward_ns`: forward that
    /// keeps its graph; empty: the same as forward_ns.
    IntervalTable(std::span<const double> forward_ns, std::span<const double> recompute_ns,
                  std::span<const double> backward_ns, const std::vector<double>& speeds,
                  std::span<const double> kept_forward_ns = {});

    std::size_t layers() const noexcept { return layers_; }
    bool has(double speed) const;
    bool has_kept_forwards() const noexcept { return !kept_forwards_.empty(); }
    /// Index of a speed for at(). Throws std::out_of_range for a speed that was not given.
    std::size_t speed_class(double speed) const;
    const IntervalTimes& at(std::size_t speed_class, std::size_t first, std::size_t end) const {
        return times_[index(speed_class, first, end)];
    }
    std::int64_t kept_forward(std::size_t speed_class, std::size_t first, std::size_t end) const {
        return kept_forwards_.empty() ? at(speed_class, first, end).forward
                                      : kept_forwards_[index(speed_class, first, end)];
    }

private:
    std::size_t index(std::size_t speed_class, std::size_t first, std::size_t end) const {
        return speed_class * offsets_.back() + offsets_[first] + (end - first - 1);
    }

    std::size_t layers_;
    // Where each first layer begins within one speed's part of times_; the last entry is the part's size.
    std::vector<std::size_t> offsets_;
    std::vector<double> speeds_;  // distinct values
    std::vector<IntervalTimes> times_;
    std::vector<std::int64_t> kept_forwards_;  // empty: as forward
};

/// Times of every range of layers as a given partition, and of every cut. Threading: immutable; a lookup reads one
/// array.
class PartitionTable {
public:
    /// Throws BalanceError if the problem's arrays do not fit each other.
    explicit PartitionTable(const PartitionProblem& problem);

    std::size_t layers() const noexcept { return layers_; }
    const IntervalTimes& at(std::size_t partition, std::size_t first, std::size_t end) const {
        return intervals_->at(speed_class_[partition], first, end);
    }
    /// Forward of the last micro-batch, if keeps_last().
    std::int64_t kept_forward(std::size_t partition, std::size_t first, std::size_t end) const {
        return intervals_->kept_forward(speed_class_[partition], first, end);
    }
    /// True if only the last of several equal micro-batches keeps its graph, and its forward takes a different time.
    /// False with two sizes: there the times are a bound that treats the last micro-batch like the others.
    bool keeps_last() const noexcept { return keeps_last_; }
    /// Copies between `partition` and the one before it, whose last layer is `first - 1`.
    std::int64_t copy_forward(std::size_t partition, std::size_t first) const {
        return copy(copy_forward_, partition, first);
    }
    std::int64_t copy_backward(std::size_t partition, std::size_t first) const {
        return copy(copy_backward_, partition, first);
    }
    /// Time per phase of the m - 1 micro-batches that at() does not count, at the bottleneck of the partition and the
    /// link before it. Includes recompute, unless nothing is recomputed. If keeps_last(), forward leaves out the last
    /// micro-batch.
    struct Others {
        std::int64_t forward = 0;
        std::int64_t backward = 0;
    };
    Others others(std::size_t partition, std::size_t first, std::size_t end) const {
        const IntervalTimes& least = at(partition, first, end);
        const std::int64_t c = copy_forward(partition, first);
        const std::int64_t g = copy_backward(partition, first);
        if (!two_sizes_) {
            return {(repeats_ - (keeps_last_ ? 1 : 0)) * std::max(least.forward, c),
                    repeats_ * std::max(backward_work(least), g)};
        }
        const std::int64_t k = two_sizes_->num_larger;
        const std::int64_t rest = repeats_ + 1 - k;
        const IntervalTimes& larger = two_sizes_->larger->at(speed_class_[partition], first, end);
        const IntervalTimes& smaller = two_sizes_->smaller->at(speed_class_[partition], first, end);
        const std::int64_t last =
            keeps_one_ ? two_sizes_->smaller->kept_forward(speed_class_[partition], first, end) : smaller.forward;
        const std::int64_t copies = k * copy(two_sizes_->copy_larger_ns, partition, first) +
                                    rest * copy(two_sizes_->copy_smaller_ns, partition, first);
        return {std::max(k * larger.forward + (rest - 1) * smaller.forward + last - least.forward, copies - c),
                std::max(
                    k * backward_work(larger) + (rest - 1) * backward_work(smaller) + smaller.backward - least.backward,
                    copies - g)};
    }

private:
    std::int64_t backward_work(const IntervalTimes& times) const {
        return times.backward + (recomputes_ ? times.recompute : 0);
    }
    std::int64_t copy(const std::vector<std::int64_t>& copies, std::size_t partition, std::size_t first) const {
        const bool is_free = partition == 0 || copies.empty() || (!free_.empty() && free_[partition - 1]);
        return is_free ? 0 : copies[first - 1];
    }

    std::size_t layers_;
    bool recomputes_;
    std::int64_t repeats_;  // m - 1
    bool keeps_one_;        // one of several keeps its graph
    bool keeps_last_ = false;
    std::optional<TwoSizes> two_sizes_;
    std::vector<std::size_t> speed_class_;
    std::shared_ptr<const IntervalTable> intervals_;
    std::vector<std::int64_t> copy_forward_;
    std::vector<std::int64_t> copy_backward_;
    std::vector<bool> free_;
};
}  // namespace pipescope
