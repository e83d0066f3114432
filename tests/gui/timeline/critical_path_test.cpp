#include "gui/timeline/bubble_causes.h"
#include "gui/timeline/step_graph.h"
#include "schedule/schedules.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace pipescope {
namespace {
struct RandomRun {
    Profile profile;
    PipelineOptions options;
};

/// Random balance of 1 to 6 lanes, costs and links, with many zeros and with lanes that share a device.
RandomRun randomRun(std::mt19937& random) {
    const int lanes = 1 + static_cast<int>(random() % 6);
    constexpr std::array kSchedules{"gpipe", "1f1b", "interleaved", "zero-bubble-h1"};
    const std::string schedule = kSchedules[random() % kSchedules.size()];
    const int perLane = schedule == "interleaved" ? 2 : 1;
    const int partitions = lanes * perLane;
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
    run.options.speeds.resize(std::min<std::size_t>(run.options.speeds.size(), static_cast<std::size_t>(lanes)));
    run.options.devices.resize(std::min<std::size_t>(run.options.devices.size(), static_cast<std::size_t>(lanes)));
    for (int j = 0; perLane > 1 && j < partitions; ++j) {
        run.options.placement.emplace_back(j % lanes);
    }
    run.options.chunks = perLane > 1 ? lanes * (1 + static_cast<int>(random() % 3)) : run.options.chunks;
    run.options.batch = run.options.chunks * static_cast<std::int64_t>(1 + random() % 2);
    return run;
}

TEST(CriticalPath, CoversTheStepWithoutAGapOnTheVirtualClockWhateverThePipeline) {
    int withCopies = 0;
    for (std::uint32_t seed = 0; seed < 600; ++seed) {
        std::mt19937 random(seed);
        const RandomRun run = randomRun(random);
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + to_json(run.options));
        const Simulation simulation = simulate(run.profile, run.options, {.noise = false, .memory = false});
        const TimelineStore store(simulation.timeline);
        const StepGraph tasks(store, 0);
        const CriticalPath path = criticalPath(tasks);
        ASSERT_EQ(path.waits, 0);
        ASSERT_EQ(path.length(), simulation.step_time.count());
        ASSERT_FALSE(path.tasks.empty());
        for (std::size_t k = 1; k < path.tasks.size(); ++k) {
            ASSERT_EQ(tasks.task(path.tasks[k]).start, tasks.task(path.tasks[k - 1]).end);
        }
        withCopies += path.copies > 0 ? 1 : 0;
        for (const BubblePiece& piece : bubblePieces(tasks)) {
            ASSERT_NE(piece.cause, BubbleCause::contention);  // nothing begins late there
            if (piece.cause == BubbleCause::copy) {
                const StepTask& copy = tasks.task(piece.cause_of);
                ASSERT_TRUE(is_copy(copy.key.kind));
                ASSERT_GT(copy.duration(), 0);
                ASSERT_GE(copy.end, piece.end);
                ASSERT_EQ(tasks.receiver(piece.cause_of), piece.lane);
            }
        }
    }
    EXPECT_GT(withCopies, 20);
}

TEST(CriticalPath, StaysOnTheLaneThatDecidesWhereCopiesAreFree) {
    // Lane 2 of four has the most work. All lanes are on one device, so copies take no time.
    std::mt19937 random(1);
    Profile profile = random_profile(random, 4, false);
    for (std::size_t l = 0; l < 4; ++l) {
        const double cost = l == 2 ? 30'000 : 10'000;
        profile.layers[l].forward_ns = profile.layers[l].recompute_ns = {cost, 3 * cost};
        profile.layers[l].backward_ns = {2 * cost, 6 * cost};
    }
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.devices.assign(4, "cpu");
    options.chunks = options.batch = 8;
    const Simulation simulation = simulate(profile, options, {.noise = false, .memory = false});
    const TimelineStore store(simulation.timeline);
    const StepGraph tasks(store, 0);
    const CriticalPath path = criticalPath(tasks);
    std::int64_t onTheHeaviest = 0;
    for (const StepTaskIndex index : path.tasks) {
        onTheHeaviest += tasks.task(index).lane == LaneId{2} ? tasks.task(index).duration() : 0;
    }
    EXPECT_EQ(path.waits, 0);
    EXPECT_GT(onTheHeaviest, path.length() * 3 / 4);
}

TEST(BubbleCauses, BlameTheCopyAndNotALaneThatHadFinished) {
    // Two equal lanes with a link ten times slower than a forward: lane 0 has finished its forwards when lane 1 gets
    // the second micro-batch.
    std::mt19937 random(2);
    Profile profile = random_profile(random, 2, false);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_ns = layer.recompute_ns = {100, 300};
        layer.backward_ns = {200, 600};
        layer.output_bytes = {1000, 3000};
        layer.aliases_input = false;
    }
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.checkpoint = Checkpoint::never;
    options.chunks = options.batch = 4;
    options.link = {1e9, 0};  // a byte a ns
    const Simulation simulation = simulate(profile, options, {.noise = false, .memory = false});
    const TimelineStore store(simulation.timeline);
    const StepGraph tasks(store, 0);
    std::int64_t forCopies = 0;
    for (const BubblePiece& piece : bubblePieces(tasks)) {
        EXPECT_NE(piece.cause, BubbleCause::slower_lane) << piece.lane.value() << " at " << piece.start;
        forCopies += piece.lane == LaneId{1} && piece.cause == BubbleCause::copy ? piece.length() : 0;
    }
    // The first of four copies starts at 100. Lane 1 runs for 100 between two of them.
    EXPECT_EQ(forCopies, 1000 + 3 * 900);
}

TEST(BubbleCauses, DoNotBlameALaneThatWaitedItselfBeforeItRecomputed) {
    // Lane 2 is slow. Lane 1 starts its recompute when it has a gradient and then continues with the backward: it is
    // not slower than lane 0.
    std::mt19937 random(3);
    Profile profile = random_profile(random, 3, false);
    for (std::size_t l = 0; l < 3; ++l) {
        const double cost = l == 2 ? 1000 : 100;
        profile.layers[l].forward_ns = profile.layers[l].recompute_ns = {cost, 3 * cost};
        profile.layers[l].backward_ns = {2 * cost, 6 * cost};
    }
    PipelineOptions options;
    options.balance = Balance({1, 1, 1});
    options.checkpoint = Checkpoint::always;
    options.recompute_start = RecomputeStart::ordinary;
    options.chunks = options.batch = 5;
    const Simulation simulation = simulate(profile, options, {.noise = false, .memory = false});
    const TimelineStore store(simulation.timeline);
    const StepGraph tasks(store, 0);
    int blamed = 0;
    for (const BubblePiece& piece : bubblePieces(tasks)) {
        if (piece.cause == BubbleCause::slower_lane) {
            EXPECT_EQ(tasks.task(piece.cause_of).lane, LaneId{2});
            ++blamed;
        }
    }
    EXPECT_GT(blamed, 0);
}
}  // namespace
}  // namespace pipescope
