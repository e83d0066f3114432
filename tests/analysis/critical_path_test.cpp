#include "analysis/bubble_causes.h"
#include "analysis/recorded_run.h"
#include "schedule/schedules.h"
#include "simulator/simulation.h"
#include "tests/analysis/random_run.h"
#include "tests/analysis/tasks_of_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace pipescope {
namespace {
TEST(CriticalPath, CoversTheStepWithoutAGapOnTheVirtualClockWhateverThePipeline) {
    int with_copies = 0;
    for (std::uint32_t seed = 0; seed < 600; ++seed) {
        std::mt19937 random(seed);
        const RandomRun run = random_run(random);
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + to_json(run.options));
        const Simulation simulation =
            simulate(CheckedProfile(run.profile), run.options, {.noise = false, .memory = false});
        // The same whether dependencies are those of the task graph or read off the keys.
        for (const auto& graph : {pipeline_graph_of(run.profile, run.options), std::shared_ptr<const TaskGraph>()}) {
            const StepGraph tasks = tasks_of_step(simulation.timeline, 0, graph);
            const CriticalPath path = critical_path(tasks);
            ASSERT_EQ(path.waits, 0);
            ASSERT_EQ(path.length(), simulation.step_time.count());
            ASSERT_FALSE(path.tasks.empty());
            for (std::size_t k = 1; k < path.tasks.size(); ++k) {
                ASSERT_EQ(tasks.task(path.tasks[k]).start, tasks.task(path.tasks[k - 1]).end);
            }
            with_copies += path.copies > 0 ? 1 : 0;
            for (const Bubble& piece : bubbles_of(tasks)) {
                ASSERT_NE(piece.cause, BubbleCause::contention);  // nothing begins late there
                if (piece.cause == BubbleCause::copy) {
                    const StepTask& copy = tasks.task(piece.culprit);
                    ASSERT_TRUE(is_copy(copy.key.kind));
                    ASSERT_GT(copy.duration(), 0);
                    ASSERT_GE(copy.end, piece.end);
                    ASSERT_EQ(tasks.receiver(piece.culprit), piece.lane);
                }
            }
        }
    }
    EXPECT_GT(with_copies, 40);
}

TEST(CriticalPath, StaysOnTheLaneThatDecidesWhereCopiesAreFree) {
    // Lane 2 of four has most to do; all lanes are on one device, so that copies take no time.
    std::mt19937 random(1);
    Profile profile = random_profile(random, 4, false);
    for (std::size_t l = 0; l < 4; ++l) {
        const double cost = l == 2 ? 30'000 : 10'000;
        profile.layers[l].forward_ns = profile.layers[l].recompute_ns = {cost, 3 * cost};
        profile.layers[l].backward_ns = {2 * cost, 6 * cost};
    }
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.hardware.devices.assign(4, "cpu");
    options.chunks = options.batch = 8;
    const Simulation simulation = simulate(CheckedProfile(profile), options, {.noise = false, .memory = false});
    const StepGraph tasks = tasks_of_step(simulation.timeline, 0);
    const CriticalPath path = critical_path(tasks);
    std::int64_t on_the_heaviest = 0;
    for (const StepTaskIndex index : path.tasks) {
        on_the_heaviest += tasks.task(index).lane == LaneId{2} ? tasks.task(index).duration() : 0;
    }
    EXPECT_EQ(path.waits, 0);
    EXPECT_GT(on_the_heaviest, path.length() * 3 / 4);
}

TEST(BubbleCauses, BlameTheCopyAndNotALaneThatHadFinished) {
    // Two equal lanes, whose link takes ten times as long as a forward: lane 0 is through with its forwards when lane 1
    // gets the second micro-batch.
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
    options.hardware.link = {1e9, 0};  // a byte a ns
    const Simulation simulation = simulate(CheckedProfile(profile), options, {.noise = false, .memory = false});
    const StepGraph tasks = tasks_of_step(simulation.timeline, 0);
    std::int64_t for_copies = 0;
    for (const Bubble& piece : bubbles_of(tasks)) {
        EXPECT_NE(piece.cause, BubbleCause::slower_lane) << piece.lane.value() << " at " << piece.start;
        for_copies += piece.lane == LaneId{1} && piece.cause == BubbleCause::copy ? piece.length() : 0;
    }
    // The first of four copies begins at 100; between two of them lane 1 runs for 100.
    EXPECT_EQ(for_copies, 1000 + 3 * 900);
}

TEST(BubbleCauses, DoNotBlameALaneThatWaitedItselfBeforeItRecomputed) {
    // Lane 2 is slow. Lane 1 recomputes once it has a gradient, then goes backward at once: it is not slower than lane
    // 0.
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
    const Simulation simulation = simulate(CheckedProfile(profile), options, {.noise = false, .memory = false});
    const StepGraph tasks = tasks_of_step(simulation.timeline, 0);
    int blamed = 0;
    for (const Bubble& piece : bubbles_of(tasks)) {
        if (piece.cause == BubbleCause::slower_lane) {
            EXPECT_EQ(tasks.task(piece.culprit).lane, LaneId{2});
            ++blamed;
        }
    }
    EXPECT_GT(blamed, 0);
}
}  // namespace
}  // namespace pipescope
