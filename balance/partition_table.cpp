#include "balance/partition_table.h"

#include "balance/partition.h"
#include "balance/partition_time.h"

#include <algorithm>
#include <string>

namespace pipescope {
namespace {
void require(bool holds, const char* what, std::size_t size, std::size_t wanted) {
    if (!holds) {
        throw BalanceError(std::string(what) + " has " + std::to_string(size) + " entries; it needs " +
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

PartitionTable::PartitionTable(const PartitionProblem& problem)
    : layers_(problem.forward_ns.size()),
      recomputes_(problem.checkpoint != Checkpoint::never),
      copy_forward_(problem.copy_forward_ns),
      copy_backward_(problem.copy_backward_ns),
      free_(problem.free_boundary) {
    check(problem);
    for (std::size_t first = 0; first <= layers_; ++first) {
        offsets_.push_back(first == 0 ? 0 : offsets_.back() + (layers_ - first + 1));
    }
    std::vector<double> speeds;  // the different ones
    for (std::size_t j = 0; j < static_cast<std::size_t>(problem.partitions); ++j) {
        const double speed = problem.speeds.empty() ? 1.0 : problem.speeds[j];
        const auto known = std::find(speeds.begin(), speeds.end(), speed);
        speed_class_.push_back(static_cast<std::size_t>(known - speeds.begin()));
        if (known == speeds.end()) {
            speeds.push_back(speed);
        }
    }
    times_.reserve(speeds.size() * offsets_.back());
    for (const double speed : speeds) {
        for (std::size_t first = 0; first < layers_; ++first) {
            double forward = 0;
            double recompute = 0;
            double backward = 0;
            for (std::size_t l = first; l < layers_; ++l) {
                forward += problem.forward_ns[l];
                recompute += problem.recompute_ns[l];
                backward += problem.backward_ns[l];
                times_.push_back(
                    {rounded_time(forward, speed), rounded_time(recompute, speed), rounded_time(backward, speed)});
            }
        }
    }
}
}  // namespace pipescope
