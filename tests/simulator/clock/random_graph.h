#pragma once

#include "schedule/schedules.h"
#include "simulator/clock/event_engine.h"

#include <cstddef>
#include <random>
#include <vector>

namespace pipescope {
/// A separate server for every lane and channel.
inline SharedResources nothing_shared(const TaskGraph& graph) {
    SharedResources resources;
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        resources.server_of_lane.push_back(resources.speeds.size());
        resources.speeds.push_back({1});
    }
    for (std::size_t k = 0; k < graph.channels().size(); ++k) {
        resources.server_of_channel.push_back(resources.speeds.size());
        resources.speeds.push_back({1});
    }
    return resources;
}

/// A small graph of any named schedule. `random` gives unsigned numbers of 32 bits.
template <class Random>
TaskGraph random_graph(Random& random) {
    const std::vector<Schedule> schedules = all_schedules();
    const Schedule schedule = schedules[random() % schedules.size()];
    PipelineShape shape{.num_partitions = 1 + static_cast<int>(random() % 6),
                        .num_micro_batches = 1 + static_cast<int>(random() % 9),
                        .checkpoint = static_cast<Checkpoint>(random() % 3),
                        .backward_order = static_cast<BackwardOrder>(random() % 2),
                        .recompute_start = static_cast<RecomputeStart>(random() % 2),
                        .replicas = 1 + static_cast<int>(random() % 2)};
    if (!runs_one_partition_a_lane(schedule)) {
        shape.num_partitions = 4;
        shape.num_micro_batches = 2 * (4 + static_cast<int>(random() % 3));
        shape.placement = placement_of(schedule, 4, 2);
        shape.joins_pairs = random() % 2 == 0;
    }
    return make_schedule(schedule, shape);
}

/// Up to 1000; a quarter of them 0.
template <class Random>
std::vector<double> random_durations(Random& random, std::size_t count) {
    std::vector<double> durations(count);
    for (double& duration : durations) {
        duration = random() % 4 == 0 ? 0 : std::uniform_real_distribution<double>(0, 1000)(random);
    }
    return durations;
}
}  // namespace pipescope
