#include "simulator/automatic_schedule.h"

#include "simulator/balanced_pipeline.h"
#include "simulator/search_tables.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace pipescope {
namespace {
std::optional<Simulation> simulated_if_accepted(const Profile& profile, PipelineOptions options,
                                                const Schedule& schedule) {
    options.schedule = schedule;
    try {
        return simulate(profile, options, {.noise = false, .memory = true});
    } catch (const UsageError&) {
        return std::nullopt;  // does not fit the placement or the micro-batches
    }
}

Bytes peak_of(const Simulation& simulation) {
    Bytes peak = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        peak = std::max(peak, lane.peak_bytes);
    }
    return peak;
}

/// Options with one partition a lane, in turn, or in a V.
PipelineOptions random_placement(std::mt19937& random, const Profile& profile) {
    const int n = 1 + static_cast<int>(random() % 4);
    const int layout = static_cast<int>(random() % 3);
    const int partitions = layout == 0 ? n : 2 * n;
    PipelineOptions options = random_options(random, random_balance(random, profile.layers.size(), partitions));
    options.hardware.devices.clear();
    options.hardware.speeds.clear();
    for (int j = 0; j < partitions && layout > 0; ++j) {
        options.placement.emplace_back(layout == 1 || j < n ? j % n : 2 * n - 1 - j);
    }
    return options;
}
}  // namespace

TEST(AutomaticSchedule, IsNeverSlowerThanANamedOneNorQuickerThanItsBound) {
    std::mt19937 random(1);
    int compared = 0;
    for (int round = 0; round < 60; ++round) {
        Profile profile = random_profile(random, 8, round % 3 == 0);
        PipelineOptions options = random_placement(random, profile);
        if (round % 2 == 0) {  // lanes run faster than profiled while others wait
            profile.co_running_slowdown = {1, 1.3};
            options.hardware.devices.assign(static_cast<std::size_t>(num_lanes(options)), kHost);
            options.hardware.host_cores = 2;
        }
        if (round % 4 == 1) {  // one loss of the mini-batch takes less than those of the micro-batches
            profile.loss_ns = {1000, 1010};
        }
        PipelineOptions automatic = options;
        automatic.schedule = Schedule::automatic;
        const Simulation found = simulate(profile, automatic, {.noise = false, .memory = true});
        ASSERT_TRUE(found.lower_bound) << "round " << round;
        for (const Schedule& named : all_schedules()) {
            const auto other = simulated_if_accepted(profile, options, named);
            if (other && is_synchronous(named)) {
                EXPECT_LE(found.step_time, other->step_time) << to_string(named) << ", round " << round;
                EXPECT_LE(*found.lower_bound, other->step_time) << to_string(named) << ", round " << round;
                ++compared;
            }
        }
    }
    EXPECT_GE(compared, 120);
}

TEST(AutomaticSchedule, KeepsALimitOfMicroBatchesInFlight) {
    PipelineOptions options;
    options.balance = Balance({4, 4});
    options.chunks = options.batch = 4;
    options.checkpoint = Checkpoint::never;
    options.most_in_flight = 2;
    options.schedule = Schedule::one_f_one_b;
    const Profile profile = uniform_profile(8);
    const Nanoseconds named = simulate(profile, options).step_time;
    options.schedule = Schedule::automatic;
    EXPECT_LE(simulate(profile, options).step_time, named);
}

// Each lane works 12 x 4 layers x 3000 ns, whatever the sizes of its eight micro-batches; the second one starts after a
// forward of the smallest.
TEST(AutomaticSchedule, CountsTheWorkOfUnequalMicroBatches) {
    Profile profile = uniform_profile(8);
    profile.loss_ns = {0};
    PipelineOptions options;
    options.balance = Balance({4, 4});
    options.chunks = 8;
    options.batch = 12;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::automatic;
    EXPECT_EQ(simulate(profile, options).lower_bound->count(), 4 * 1000 + 12 * 4 * 3000);
}

TEST(AutomaticSchedule, KeepsAMemoryLimitThatANamedOneKeeps) {
    std::mt19937 random(2);
    int tight = 0;
    for (int round = 0; round < 60; ++round) {
        const Profile profile = random_profile(random, 8, false);
        PipelineOptions options = random_placement(random, profile);
        Bytes least = std::numeric_limits<Bytes>::max();
        for (const Schedule& named : all_schedules()) {
            if (const auto other = simulated_if_accepted(profile, options, named); other && is_synchronous(named)) {
                least = std::min(least, peak_of(*other));
            }
        }
        options.hardware.memory_limit = least + static_cast<Bytes>(random() % 200);
        options.schedule = Schedule::automatic;
        const Simulation found = simulate(profile, options, {.noise = false, .memory = true});
        EXPECT_TRUE(found.feasible) << "round " << round;
        for (const Schedule& named : all_schedules()) {
            const auto other = simulated_if_accepted(profile, options, named);
            if (other && is_synchronous(named) && other->feasible) {
                EXPECT_LE(found.step_time, other->step_time) << to_string(named) << ", round " << round;
            }
            tight += other && !other->feasible ? 1 : 0;
        }
    }
    EXPECT_GE(tight, 20);
}

TEST(AutomaticSchedule, IsATableThatSimulatesAlike) {
    std::mt19937 random(3);
    for (int round = 0; round < 20; ++round) {
        const Profile profile = random_profile(random, 8, round % 2 == 0);
        PipelineOptions options = random_placement(random, profile);
        options.schedule = Schedule::automatic;
        const Simulation found = simulate(profile, options, {.noise = false, .memory = true});
        const Simulation again = simulate(profile, found.options, {.noise = false, .memory = true});
        EXPECT_NE(found.options.schedule, Schedule(Schedule::automatic));
        EXPECT_EQ(again.step_time, found.step_time);
        EXPECT_EQ(peak_of(again), peak_of(found));
    }
}

TEST(AutomaticSchedule, MovesCutsAndOrderTogether) {
    std::mt19937 random(4);
    for (int round = 0; round < 8; ++round) {
        const Profile profile = random_profile(random, 9, false);
        const int lanes = 2 + static_cast<int>(random() % 2);
        PipelineOptions options;
        options.chunks = 4;
        options.batch = 4;
        options.checkpoint = Checkpoint::never;
        const SearchTables tables(profile, options);
        options.schedule = Schedule::automatic;
        const Simulation found =
            balanced_pipeline(profile, options, lanes, BalanceAlgorithm::optimal, tables).simulation;
        for (const Schedule& named : all_schedules()) {
            options.schedule = named;
            if (is_synchronous(named) && can_be_balanced(profile, options, lanes)) {
                const Simulation other =
                    balanced_pipeline(profile, options, lanes, BalanceAlgorithm::optimal, tables).simulation;
                EXPECT_LE(found.step_time, other.step_time) << to_string(named) << ", round " << round;
            }
        }
    }
}

// Published: with equal tasks, no schedule of synchronous steps is better than (p - 1) forwards and all work of the
// last lane (arXiv 2401.10241, section 3.1), which zero-bubble H1 reaches at the memory of 1F1B.
TEST(AutomaticSchedule, ReachesTheBoundAtTheMemoryOf1F1B) {
    Profile profile = profile_of(std::vector<LayerProfile>(8, layer_of(1000, 2000, 8)));
    for (LayerProfile& layer : profile.layers) {
        layer.saved_bytes = {1000};
        layer.parameter_bytes = layer.gradient_bytes = 8;  // so that half of the backward is W
    }
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(8, 1));
    options.chunks = options.batch = 32;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::one_f_one_b;
    // The paper counts activations only; split backwards also keep each output's gradient until W.
    options.hardware.memory_limit = peak_of(simulate(profile, options)) * 102 / 100;
    options.schedule = Schedule::automatic;
    const Simulation found = simulate(profile, options);
    EXPECT_TRUE(found.feasible);
    EXPECT_LE(static_cast<double>(found.step_time.count()), 1.01 * static_cast<double>(found.lower_bound->count()));
    EXPECT_EQ(found.lower_bound->count(), 7 * 1000 + 32 * 3000);
}
}  // namespace pipescope
