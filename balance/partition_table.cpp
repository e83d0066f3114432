#include "balance/partition_table.h"

#include "balance/contiguous_partition.h"
#include "balance/partition_time.h"
#include "base/quantities.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace pipescope {
namespace {
void require(bool holds, const char* what, std::size_t size, std::size_t wanted) {
    if (!holds) {
        throw BalanceError(std::string(what) + " has " + counted(size, "entry", "entries") + "; it needs " +
                           std::to_string(wanted) + "; correct it");
    }
}

void check(const PartitionProblem& problem) {
    check_partition_request(problem.forward_ns, problem.partitions);
    check_partition_request(problem.recompute_ns, problem.partitions);
    check_partition_request(problem.backward_ns, problem.partitions);
    const std::size_t layers = problem.forward_ns.size();
    if (layers > kMostExactLayers) {
        throw BalanceError("the model has " + std::to_string(layers) + " layers; the exact search takes at most " +
                           std::to_string(kMostExactLayers) + "; use the minmax algorithm, or group layers");
    }
    const auto n = static_cast<std::size_t>(problem.partitions);
    const auto require_length = [](const char* what, std::size_t size, std::size_t wanted, bool may_be_empty) {
        require(size == wanted || (may_be_empty && size == 0), what, size, wanted);
    };
    require_length("recompute_ns", problem.recompute_ns.size(), layers, false);
    require_length("backward_ns", problem.backward_ns.size(), layers, false);
    require_length("kept_forward_ns", problem.kept_forward_ns.size(), layers, true);
    require_length("copy_forward_ns", problem.copy_forward_ns.size(), layers - 1, true);
    require_length("copy_backward_ns", problem.copy_backward_ns.size(), layers - 1, true);
    require_length("free_boundary", problem.free_boundary.size(), n - 1, true);
    require_length("speeds", problem.speeds.size(), n, true);
    if (problem.micro_batches < 1) {
        throw BalanceError("micro_batches is " + std::to_string(problem.micro_batches) +
                           "; a step has at least 1; use 1 or more");
    }
}
}  // namespace

IntervalTable::IntervalTable(std::span<const double> forward_ns, std::span<const double> recompute_ns,
                             std::span<const double> backward_ns, const std::vector<double>& speeds,
                             std::span<const double> kept_forward_ns)
    : layers_(forward_ns.size()) {
    for (std::size_t first = 0; first <= layers_; ++first) {
        offsets_.push_back(first == 0 ? 0 : offsets_.back() + (layers_ - first + 1));
    }
    for (const double speed : speeds) {
        if (!has(speed)) {
            speeds_.push_back(speed);
        }
    }
    times_.reserve(speeds_.size() * offsets_.back());
    const bool differs = !kept_forward_ns.empty() && !std::ranges::equal(kept_forward_ns, forward_ns);
    kept_forwards_.reserve(differs ? times_.capacity() : 0);
    for (const double speed : speeds_) {
        for (std::size_t first = 0; first < layers_; ++first) {
            double forward = 0;
            double recompute = 0;
            double backward = 0;
            double kept_forward = 0;
            for (std::size_t l = first; l < layers_; ++l) {
                forward += forward_ns[l];
                recompute += recompute_ns[l];
                backward += backward_ns[l];
                times_.push_back(
                    {rounded_time(forward, speed), rounded_time(recompute, speed), rounded_time(backward, speed)});
                if (differs) {
                    kept_forward += kept_forward_ns[l];
                    kept_forwards_.push_back(rounded_time(kept_forward, speed));
                }
            }
        }
    }
}

bool IntervalTable::has(double speed) const {
    return std::ranges::find(speeds_, speed) != speeds_.end();
}

std::size_t IntervalTable::speed_class(double speed) const {
    if (!has(speed)) {
        throw std::out_of_range("no interval times for speed " + std::to_string(speed));
    }
    return static_cast<std::size_t>(std::ranges::find(speeds_, speed) - speeds_.begin());
}

PartitionTable::PartitionTable(const PartitionProblem& problem)
    : layers_(problem.forward_ns.size()),
      recomputes_(problem.checkpoint != Checkpoint::never),
      repeats_(problem.micro_batches - 1),
      keeps_one_(problem.checkpoint == Checkpoint::except_last && problem.micro_batches > 1),
      two_sizes_(problem.two_sizes),
      copy_forward_(problem.copy_forward_ns),
      copy_backward_(problem.copy_backward_ns),
      free_(problem.free_boundary) {
    check(problem);
    const std::vector<double> speeds = problem.speeds.empty()
                                           ? std::vector<double>(static_cast<std::size_t>(problem.partitions), 1.0)
                                           : problem.speeds;
    intervals_ = problem.intervals;
    if (!intervals_) {
        intervals_ = std::make_shared<const IntervalTable>(problem.forward_ns, problem.recompute_ns,
                                                           problem.backward_ns, speeds, problem.kept_forward_ns);
    }
    keeps_last_ = keeps_one_ && !two_sizes_ && intervals_->has_kept_forwards();
    require(intervals_->layers() == layers_, "intervals", intervals_->layers(), layers_);
    for (const double speed : speeds) {
        speed_class_.push_back(intervals_->speed_class(speed));
    }
}
}  // namespace pipescope
