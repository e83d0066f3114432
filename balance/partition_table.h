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

/// Times of every range of layers at every speed. Threading: immutable. Problems that differ in other ways may share
/// one.
class IntervalTable {
public:
    /// Precondition: the three spans have equal length. `speeds` may contain duplicates.
    IntervalTable(std::span<const double> forward_ns, std::span<const double> recompute_ns,
                  std::span<const double> backward_ns, const std::vector<double>& speeds);

    std::size_t layers() const noexcept { return layers_; }
    bool has(double speed) const;
    /// Index of a speed for at(). Throws std::out_of_range for a speed that was not given.
    std::size_t speed_class(double speed) const;
    const IntervalTimes& at(std::size_t speed_class, std::size_t first, std::size_t end) const {
        return times_[speed_class * offsets_.back() + offsets_[first] + (end - first - 1)];
    }

private:
    std::size_t layers_;
    std::vector<std::size_t> offsets_;  // of each first layer within one speed's part of times_; the last entry is the
                                        // part's size
    std::vector<double> speeds_;        // distinct values
    std::vector<IntervalTimes> times_;
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
    /// Copies between `partition` and the one before it, whose last layer is `first - 1`.
    std::int64_t copy_forward(std::size_t partition, std::size_t first) const {
        return copy(copy_forward_, partition, first);
    }
    std::int64_t copy_backward(std::size_t partition, std::size_t first) const {
        return copy(copy_backward_, partition, first);
    }
    /// Time per phase of each of the m - 1 micro-batches that at() does not count: the bottleneck of the partition and
    /// of the link before it. Includes recompute, unless nothing is recomputed.
    struct Others {
        std::int64_t forward = 0;
        std::int64_t backward = 0;
    };
    Others others(std::size_t partition, std::size_t first, std::size_t end) const {
        const IntervalTimes& least = at(partition, first, end);
        const std::int64_t c = copy_forward(partition, first);
        const std::int64_t g = copy_backward(partition, first);
        if (!two_sizes_) {
            return {repeats_ * std::max(least.forward, c), repeats_ * std::max(backward_work(least), g)};
        }
        const std::int64_t k = two_sizes_->num_larger;
        const std::int64_t rest = repeats_ + 1 - k;
        const IntervalTimes& larger = two_sizes_->larger->at(speed_class_[partition], first, end);
        const IntervalTimes& smaller = two_sizes_->smaller->at(speed_class_[partition], first, end);
        const std::int64_t copies = k * copy(two_sizes_->copy_larger_ns, partition, first) +
                                    rest * copy(two_sizes_->copy_smaller_ns, partition, first);
        return {std::max(k * larger.forward + rest * smaller.forward - least.forward, copies - c),
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
    std::optional<TwoSizes> two_sizes_;
    std::vector<std::size_t> speed_class_;
    std::shared_ptr<const IntervalTable> intervals_;
    std::vector<std::int64_t> copy_forward_;
    std::vector<std::int64_t> copy_backward_;
    std::vector<bool> free_;
};
}  // namespace pipescope
