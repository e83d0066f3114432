#include "analysis/compared_bubbles.h"
#include "analysis/recorded_run.h"
#include "analysis/stored_simulation.h"
#include "tests/analysis/random_run.h"
#include "tests/analysis/sample_run.h"
#include "tests/analysis/tasks_of_step.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace pipescope {
namespace {
constexpr double kExact = 1e-9;

void expect_order(const std::vector<Bubble>& bubbles) {
    for (std::size_t k = 0; k < bubbles.size(); ++k) {
        ASSERT_GT(bubbles[k].length(), 0);
        if (k > 0 && bubbles[k].lane == bubbles[k - 1].lane) {
            ASSERT_GE(bubbles[k].start, bubbles[k - 1].end);
            ASSERT_FALSE(bubbles[k].start == bubbles[k - 1].end && bubbles[k].cause == bubbles[k - 1].cause &&
                         bubbles[k].culprit == bubbles[k - 1].culprit);
        }
    }
}

/// Sums over causes and lanes against the statistics that every table shows.
void expect_sums(const StepGraph& tasks, const StepStatistics& statistics) {
    const std::vector<Bubble> bubbles = bubbles_of(tasks);
    expect_order(bubbles);
    ASSERT_NEAR(sum_bubbles(tasks, bubbles).total(), statistics.bubble_fraction, kExact);
    for (std::size_t lane = 0; lane < statistics.lanes.size(); ++lane) {
        const BubbleSums own = sum_bubbles(tasks, bubbles, LaneId{static_cast<std::int64_t>(lane)});
        ASSERT_NEAR(own.total(), statistics.lanes[lane].bubble_fraction, kExact) << "lane " << lane;
    }
}

TEST(BubbleSums, AreTheSimulatedBubbleFractionWhateverThePipeline) {
    bool seen_loss = false;
    bool seen_sum = false;
    for (std::uint32_t seed = 0; seed < 600; ++seed) {
        std::mt19937 random(seed);
        RandomRun run = random_run(random);
        run.profile.loss_ns.assign(run.profile.samples.size(), seed % 2 == 0 ? 0.0 : 900.0);
        if (seed % 5 == 0) {
            run.options.replicas = 2;
            run.options.batch *= 2;
        }
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + to_json(run.options));
        const Simulation simulation =
            simulate(CheckedProfile(run.profile), run.options, {.noise = false, .memory = false});
        const StepStatistics statistics = one_step_statistics(simulation);
        const StepGraph tasks = step_graph_of(simulation.timeline, {statistics.start.count(), statistics.end.count()},
                                              pipeline_graph_of(run.profile, run.options));
        expect_sums(tasks, statistics);
        for (const Bubble& each : bubbles_of(tasks)) {
            seen_loss = seen_loss || each.cause == BubbleCause::computes_loss;
            seen_sum = seen_sum || each.cause == BubbleCause::sums_gradients;
        }
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_TRUE(seen_loss);
    EXPECT_TRUE(seen_sum);
}

TEST(BubbleSums, AreThoseOfAPeriodIfTheScheduleNeverDrains) {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        std::mt19937 random(seed);
        RandomRun run = random_run(random);
        run.options.schedule = Schedule::pipedream;
        run.options.balance =
            random_balance(random, run.profile.layers.size(),
                           std::min(static_cast<int>(run.profile.layers.size()), 1 + static_cast<int>(seed % 4)));
        run.options.placement.clear();
        run.options.hardware = {};
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Simulation simulation =
            simulate(CheckedProfile(run.profile), run.options, {.noise = false, .memory = false});
        const StepStatistics statistics = one_step_statistics(simulation);
        const StepGraph tasks = step_graph_of(simulation.timeline, {statistics.start.count(), statistics.end.count()});
        expect_sums(tasks, statistics);
        if (HasFatalFailure()) {
            return;
        }
    }
}

TEST(BubbleSums, AreThoseOfAPeriodIfStepsOverlap) {
    bool seen_update = false;
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        std::mt19937 random(seed);
        RandomRun run = random_run(random);
        run.options.update = Update::staggered;
        run.profile.optimizer_ns = seed % 3 == 0 ? 0.0 : 5000.0;
        run.profile.layers.front().gradient_bytes = 8;
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + to_json(run.options));
        const Simulation simulation =
            simulate(CheckedProfile(run.profile), run.options, {.noise = false, .memory = true});
        const StepStatistics statistics = one_step_statistics(simulation);
        ASSERT_NEAR(statistics.bubble_fraction, simulation.bubble_fraction, kExact);
        const std::shared_ptr<const TaskGraph> graph = pipeline_graph_of(run.profile, run.options);
        const StepGraph tasks = step_graph_of(simulation.timeline, {statistics.start.count(), statistics.end.count()},
                                              graph, simulation.step);
        expect_sums(tasks, statistics);
        const CriticalPath path = critical_path(tasks);
        ASSERT_FALSE(path.tasks.empty());
        ASSERT_EQ(path.waits, 0);
        ASSERT_EQ(path.length(), simulation.step_time.count()) << "from the end of the step before";
        for (const Bubble& each : bubbles_of(tasks)) {
            seen_update = seen_update || each.cause == BubbleCause::updates_parameters;
            ASSERT_NE(each.cause, BubbleCause::finished) << "lanes go on with the next step";
        }
        // As a recording of the same steps, it has the simulated figures, and each task its twin.
        const Measured measured{simulation.timeline, {}, {simulation.step}, {}, Update::staggered};
        const Comparison comparison = compare(measured, simulation);
        ASSERT_EQ(comparison.measured_step_time, simulation.step_time);
        ASSERT_EQ(comparison.step_error, 0);
        ASSERT_NEAR(comparison.measured_bubble_fraction, simulation.bubble_fraction, kExact);
        ASSERT_EQ(comparison.tasks_unmatched, 0);
        ASSERT_TRUE(comparison.worst.empty()) << "the worst tasks are those that differ";
        const ComparedBubbles bubbles = compare_bubbles(measured, simulation, graph, graph);
        ASSERT_NEAR(bubbles.measured.total(), simulation.bubble_fraction, kExact);
        ASSERT_NEAR(bubbles.simulated.total(), simulation.bubble_fraction, kExact);
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_TRUE(seen_update);
}

// The last step of a recording, which no other one follows.
TEST(BubbleSums, OfTheLastStaggeredStepHaveTheCausesOfTheOthers) {
    const SampleRun sample{.partitions = 4, .chunks = 8};
    PipelineOptions options = sampleOptions(sample);
    options.schedule = Schedule::one_f_one_b;
    options.update = Update::staggered;
    const Simulation simulation = simulate(sampleProfile(sample), options);
    const StepStatistics statistics = one_step_statistics(simulation);
    const TimeRange range{statistics.start.count(), statistics.end.count()};
    const auto graph = pipeline_graph_of(sampleProfile(sample), options);
    const StepGraph within = step_graph_of(simulation.timeline, range, graph, simulation.step);
    Timeline cut = simulation.timeline;
    std::erase_if(cut.slices, [&](const Slice& slice) { return slice.key.step > simulation.step; });
    const StepGraph last = step_graph_of(cut, range, graph, simulation.step);
    const BubbleSums usual = sum_bubbles(within, bubbles_of(within));
    const BubbleSums sums = sum_bubbles(last, bubbles_of(last));
    EXPECT_GT(usual.of(BubbleCause::previous_partition), 0);
    for (int number = 0; number < kNumBubbleCauses; ++number) {
        const auto cause = static_cast<BubbleCause>(number);
        if (cause != BubbleCause::copy) {  // whose part of a wait may lie after the end
            EXPECT_EQ(sums.of(cause), usual.of(cause)) << describe(cause);
        }
    }
}

TEST(BubbleSums, KnowWhatTheFirstTaskOfTheNextPeriodWaitsFor) {
    PipelineOptions options;
    options.balance = Balance({1, 1, 1});
    options.schedule = Schedule::pipedream;
    std::size_t gaps = 0;
    for (int code = 0; code < 27 * 4; ++code) {
        options.chunks = options.batch = 1 + code % 4;
        const auto layer = [&](int divisor) {
            const double forward = 1000.0 * (1 + code / 4 / divisor % 3);
            return layer_of(forward, 2 * forward);
        };
        const Simulation simulation =
            simulate(profile_of({layer(1), layer(3), layer(9)}), options, {.noise = false, .memory = false});
        const StepStatistics statistics = one_step_statistics(simulation);
        const StepGraph tasks = step_graph_of(simulation.timeline, {statistics.start.count(), statistics.end.count()});
        for (const Bubble& each : bubbles_of(tasks)) {
            if (each.lane != LaneId{0} && each.end == tasks.range().end) {
                EXPECT_NE(each.cause, BubbleCause::contention) << "code " << code << ", lane " << each.lane.value();
                ++gaps;
            }
        }
    }
    EXPECT_GT(gaps, 0U);
}

/// Each task starts and ends at another time than simulated, so that tasks of a lane may overlap, as those of a
/// recording with several clocks or streams do.
Timeline disturbed(Timeline timeline, std::int32_t step, std::mt19937& random) {
    std::uniform_int_distribution<std::int64_t> by(-400, 400);
    for (Slice& slice : timeline.slices) {
        slice.key.step = step;
        slice.start += Nanoseconds{step * 10'000'000 + by(random)};
        slice.end = std::max(slice.start, slice.end + Nanoseconds{step * 10'000'000 + by(random)});
    }
    sort_slices(timeline);
    return timeline;
}

TEST(BubbleSums, AreTheMeasuredBubbleFractionEvenIfTasksOverlap) {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        std::mt19937 random(seed);
        RandomRun run = random_run(random);
        run.profile.loss_ns.assign(run.profile.samples.size(), 900.0);
        if (seed % 5 == 0) {
            run.options.replicas = 2;
            run.options.batch *= 2;
        }
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + to_json(run.options));
        const Simulation simulation =
            simulate(CheckedProfile(run.profile), run.options, {.noise = false, .memory = false});
        Timeline measured{Source::measured, simulation.timeline.lanes, {}};
        std::vector<std::int32_t> steps;
        for (std::int32_t step = 0; step < 3; ++step) {
            const Timeline one = disturbed(simulation.timeline, step, random);
            measured.slices.insert(measured.slices.end(), one.slices.begin(), one.slices.end());
            steps.push_back(step);
            expect_sums(tasks_of_step(one, step), step_statistics(one, step));
        }
        const Measured sides{measured, {}, steps, {}};
        const Comparison comparison = compare(sides, simulation);
        const ComparedBubbles bubbles = compare_bubbles(sides, simulation, pipeline_graph_of(run.profile, run.options));
        ASSERT_NEAR(bubbles.measured.total(), comparison.measured_bubble_mean, kExact);
        ASSERT_NEAR(bubbles.simulated.total(), comparison.simulated_bubble_fraction, kExact);
        if (HasFatalFailure()) {
            return;
        }
    }
}

Slice piece(TaskKind kind, int partition, int micro_batch, int start, int end) {
    return {{0, kind, partition, micro_batch, -1}, LaneId{partition}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

TEST(BubbleSums, CountTheLossAsABubbleOfItsLane) {
    // lane 1: idle, F, L, B. The loss overlaps the backward by 10.
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
                            {piece(TaskKind::forward, 0, 0, 0, 100), piece(TaskKind::forward, 1, 0, 100, 200),
                             piece(TaskKind::loss, 1, -1, 210, 250), piece(TaskKind::backward, 1, 0, 240, 300),
                             piece(TaskKind::backward, 0, 0, 300, 400)}};
    const StepGraph tasks = tasks_of_step(timeline, 0);
    const std::vector<Bubble> bubbles = bubbles_of(tasks);
    const BubbleSums lane = sum_bubbles(tasks, bubbles, LaneId{1});
    EXPECT_EQ(lane.of(BubbleCause::computes_loss), 30);
    EXPECT_EQ(lane.of(BubbleCause::contention), 10);
    EXPECT_EQ(lane.of(BubbleCause::previous_partition), 100);
    EXPECT_EQ(lane.of(BubbleCause::finished), 100);
    EXPECT_DOUBLE_EQ(lane.total(), 0.6);
    EXPECT_DOUBLE_EQ(sum_bubbles(tasks, bubbles).total(), (240 + 200) / 800.0);
    const auto loss = std::find_if(bubbles.begin(), bubbles.end(),
                                   [](const Bubble& each) { return each.cause == BubbleCause::computes_loss; });
    EXPECT_EQ(tasks.task(loss->culprit).key.kind, TaskKind::loss);
    EXPECT_EQ(tasks.task(loss->next).key.kind, TaskKind::backward);
}

TEST(BubbleSums, JoinWhatATaskOfNoLengthCutsInTwo) {
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
                            {piece(TaskKind::forward, 0, 0, 0, 100), piece(TaskKind::forward, 1, 0, 100, 200),
                             piece(TaskKind::recompute, 0, 0, 150, 150), piece(TaskKind::backward, 1, 0, 200, 300),
                             piece(TaskKind::backward, 0, 0, 300, 400)}};
    const std::vector<Bubble> bubbles = bubbles_of(tasks_of_step(timeline, 0));
    const auto of_lane =
        std::count_if(bubbles.begin(), bubbles.end(), [](const Bubble& each) { return each.lane == LaneId{0}; });
    EXPECT_LE(of_lane, 2);
}

TEST(BubbleCounterpart, WaitsForTheSameTaskInTheOtherTimeline) {
    std::mt19937 random(7);
    const RandomRun run = random_run(random);
    const Simulation simulation = simulate(CheckedProfile(run.profile), run.options, {.noise = false, .memory = false});
    const StepGraph simulated = tasks_of_step(simulation.timeline, 0);
    const Timeline later = disturbed(simulation.timeline, 4, random);
    const StepGraph measured = tasks_of_step(later, 4);
    const std::vector<Bubble> mine = bubbles_of(measured);
    const std::vector<Bubble> others = bubbles_of(simulated);
    int found = 0;
    for (const Bubble& each : mine) {
        const Bubble* twin = counterpart_of(each, measured, others, simulated);
        if (twin != nullptr) {
            ++found;
            EXPECT_EQ(twin->lane, each.lane);
            ASSERT_EQ(twin->next == kNoTask, each.next == kNoTask);
            if (each.next != kNoTask) {
                TaskKey key = measured.task(each.next).key;
                key.step = simulated.task(twin->next).key.step;
                EXPECT_EQ(simulated.task(twin->next).key, key);
            }
        }
    }
    EXPECT_GT(found, 0);
    for (const Bubble& each : others) {
        EXPECT_EQ(counterpart_of(each, simulated, others, simulated), &each);
    }
}
}  // namespace
}  // namespace pipescope
