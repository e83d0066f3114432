#pragma once

#include "balance/optimal_partition.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipescope {
inline PartitionProblem problem_of(std::vector<double> forward, std::vector<double> backward, int n, int m) {
    PartitionProblem problem;
    problem.partitions = n;
    problem.micro_batches = m;
    problem.recompute_ns = forward;
    problem.forward_ns = std::move(forward);
    problem.backward_ns = std::move(backward);
    return problem;
}

/// Chains of up to nine layers on up to five partitions. `random` gives unsigned numbers of 32 bits.
template <class Random>
PartitionProblem random_problem(Random& random) {
    const std::size_t layers = 1 + random() % 9;
    const int n = 1 + static_cast<int>(random() % std::min<std::size_t>(layers, 5));
    const auto costs = [&](int most) {
        std::vector<double> values(layers);
        for (double& value : values) {
            value =
                static_cast<double>(random() % static_cast<unsigned>(most)) / (1 + static_cast<double>(random() % 3));
        }
        return values;
    };
    PartitionProblem problem = problem_of(costs(30), costs(60), n, 1 + static_cast<int>(random() % 9));
    problem.recompute_ns = costs(30);
    problem.checkpoint = static_cast<Checkpoint>(random() % 3);
    problem.loss_ns = static_cast<std::int64_t>(random() % 20);
    if (random() % 2 == 0) {
        for (std::size_t l = 0; l + 1 < layers; ++l) {
            problem.copy_forward_ns.push_back(static_cast<std::int64_t>(random() % 40));
            problem.copy_backward_ns.push_back(static_cast<std::int64_t>(random() % 40));
        }
        for (int j = 0; j + 1 < n; ++j) {
            problem.free_boundary.push_back(random() % 3 == 0);
        }
    }
    if (random() % 2 == 0) {
        for (int j = 0; j < n; ++j) {
            problem.speeds.push_back(0.5 + static_cast<double>(random() % 3) / 2);
        }
    }
    for (std::size_t l = 0; random() % 2 == 0 && l < layers; ++l) {
        problem.kept_forward_ns.resize(layers);
        problem.kept_forward_ns[l] = static_cast<double>(random() % 12);
    }
    if (random() % 2 == 0) {
        const Bytes per_layer = 10;
        problem.peak_bytes = [per_layer](PartitionId partition, LayerRange range) {
            return per_layer * static_cast<Bytes>(range.size()) + (partition.value() == 0 ? 7 : 0);
        };
        problem.memory_limits.assign(static_cast<std::size_t>(n), static_cast<Bytes>(random() % (layers * 10)));
        for (std::size_t lane = 0; random() % 2 == 0 && lane < problem.memory_limits.size(); ++lane) {
            problem.memory_limits[lane] += static_cast<Bytes>(random() % 40);
        }
    }
    return problem;
}

/// True if the balance keeps the memory limits.
inline bool fits(const PartitionProblem& problem, const Balance& balance) {
    for (std::size_t j = 0; !problem.memory_limits.empty() && j < balance.num_partitions(); ++j) {
        const PartitionId partition{static_cast<std::int64_t>(j)};
        if (problem.peak_bytes(partition, balance.layers_of(partition)) > problem.memory_limits[j]) {
            return false;
        }
    }
    return true;
}
}  // namespace pipescope
