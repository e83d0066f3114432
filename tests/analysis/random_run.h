#pragma once

#include "schedule/schedules.h"
#include "simulator/pipeline_options.h"
#include "tests/simulator/random_pipelines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>

namespace pipescope {
struct RandomRun {
    Profile profile;
    PipelineOptions options;
};

/// Any balance of 1 to 6 lanes, costs and links, many of them nothing; lanes of one device among others.
inline RandomRun random_run(std::mt19937& random) {
    const int lanes = 1 + static_cast<int>(random() % 6);
    constexpr std::array kSchedules{Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b,
                                    Schedule::zero_bubble_h1};
    const Schedule schedule = kSchedules[random() % kSchedules.size()];
    const int per_lane = schedule == Schedule::interleaved_1f1b ? 2 : 1;
    const int partitions = lanes * per_lane;
    const std::size_t layers = static_cast<std::size_t>(partitions) + random() % 4;
    RandomRun run{random_profile(random, layers, random() % 3 == 0), {}};
    for (LayerProfile& layer : run.profile.layers) {
        if (random() % 4 == 0) {
            layer.forward_ns = layer.recompute_ns = layer.backward_ns = {0, 0};
        }
    }
    run.profile.layers[random() % layers].backward_ns = {700, 2100};  // something takes time
    run.options = random_options(random, random_balance(random, layers, partitions));
    run.options.schedule = schedule;
    run.options.recompute_start = static_cast<RecomputeStart>(random() % 2);
    run.options.backward_order = static_cast<BackwardOrder>(random() % 2);
    run.options.hardware.speeds.resize(
        std::min<std::size_t>(run.options.hardware.speeds.size(), static_cast<std::size_t>(lanes)));
    run.options.hardware.devices.resize(
        std::min<std::size_t>(run.options.hardware.devices.size(), static_cast<std::size_t>(lanes)));
    for (int j = 0; per_lane > 1 && j < partitions; ++j) {
        run.options.placement.emplace_back(j % lanes);
    }
    run.options.chunks = per_lane > 1 ? lanes * (1 + static_cast<int>(random() % 3)) : run.options.chunks;
    run.options.batch = run.options.chunks * static_cast<std::int64_t>(1 + random() % 2);
    return run;
}
}  // namespace pipescope
