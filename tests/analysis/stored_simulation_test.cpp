#include "analysis/stored_simulation.h"
#include "tests/analysis/sample_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pipescope {
namespace {
TEST(StoredSimulation, ThatIsTheSameChangesNothing) {
    const Simulation simulation = simulate(sampleProfile({}), sampleOptions({}));
    Simulation shown = simulation;
    EXPECT_EQ(take_stored_tasks(shown, simulation.timeline, simulation.memory), std::nullopt);
    EXPECT_EQ(shown.timeline, simulation.timeline);
    EXPECT_EQ(shown.memory, simulation.memory);
    EXPECT_EQ(shown.step_time, simulation.step_time);
    EXPECT_EQ(shown.speedup, simulation.speedup);
    EXPECT_EQ(shown.lanes.at(1).peak_bytes, simulation.lanes.at(1).peak_bytes);
}

TEST(StoredSimulation, ThatIsSlowerHasItsOwnFiguresAndAWarning) {
    SampleRun run;
    run.cv = 0.1;
    const Simulation simulation = simulate(sampleProfile(run), sampleOptions(run));
    Timeline slower = simulation.timeline;
    for (Slice& slice : slower.slices) {
        slice.start *= 2;
        slice.end *= 2;
    }
    Simulation shown = simulation;
    const std::optional<TraceWarning> warning = take_stored_tasks(shown, slower, {});
    ASSERT_TRUE(warning);
    EXPECT_THAT(warning->text, testing::HasSubstr("not those of its profile and configuration"));
    EXPECT_EQ(warning->severity, Severity::caution);
    EXPECT_EQ(shown.step_time, 2 * simulation.step_time);
    EXPECT_DOUBLE_EQ(shown.speedup, simulation.speedup / 2);
    EXPECT_DOUBLE_EQ(shown.samples_per_second, simulation.samples_per_second / 2);
    EXPECT_NEAR(shown.bubble_fraction, simulation.bubble_fraction, 1e-12);
    EXPECT_EQ(shown.noise, std::nullopt) << "the noise is that of the profile, not of these tasks";
    EXPECT_EQ(shown.lanes.at(0).busy, 2 * simulation.lanes.at(0).busy);
}

TEST(StoredSimulation, WithoutTasksIsNone) {
    const Simulation simulation = simulate(sampleProfile({}), sampleOptions({}));
    Simulation shown = simulation;
    EXPECT_EQ(take_stored_tasks(shown, {Source::simulated, {}, {}}, {}), std::nullopt);
    EXPECT_EQ(shown.timeline, simulation.timeline);
}

TEST(StoredSimulation, OfAScheduleThatNeverDrainsIsOneStepOfAllItsTasks) {
    const SampleRun run{.partitions = 4, .chunks = 2};
    PipelineOptions options = sampleOptions(run);
    options.schedule = Schedule::pipedream;
    const Simulation simulation = simulate(sampleProfile(run), options);
    ASSERT_GT(steps_of(simulation.timeline).size(), 1U) << "the window holds tasks of several steps";
    const StepStatistics step = one_step_statistics(simulation);
    EXPECT_EQ(step.start, Nanoseconds{0});
    EXPECT_EQ(step.step_time(), simulation.step_time);
    const StepStatistics all = one_step_statistics(simulation.timeline);
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        EXPECT_EQ(all.lanes[lane].busy, simulation.lanes[lane].busy);
        EXPECT_EQ(step.lanes[lane].busy, simulation.lanes[lane].busy);
        EXPECT_EQ(step.lanes[lane].bubble_fraction, simulation.lanes[lane].bubble_fraction);
    }
    Simulation shown = simulation;
    EXPECT_EQ(take_stored_tasks(shown, simulation.timeline, simulation.memory), std::nullopt);
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        EXPECT_EQ(shown.lanes[lane].peak_bytes, simulation.lanes[lane].peak_bytes);
    }
    Timeline slower = simulation.timeline;
    for (Slice& slice : slower.slices) {
        slice.start *= 2;
        slice.end *= 2;
    }
    ASSERT_TRUE(take_stored_tasks(shown, slower, {}));
    EXPECT_EQ(shown.lanes[0].busy, 2 * simulation.lanes[0].busy);
}

// Its samples hold the window alone. A file has them by lane.
TEST(StoredSimulation, OfAScheduleThatNeverDrainsHasThePeaksOfTheWholeRun) {
    const SampleRun run{.partitions = 4, .chunks = 8};
    PipelineOptions options = sampleOptions(run);
    options.hardware.memory_limit.reset();
    options.schedule = Schedule::pipedream;
    const Simulation simulation = simulate(sampleProfile(run), options);
    std::vector<MemorySample> stored = simulation.memory;
    std::ranges::stable_sort(stored, {}, &MemorySample::lane);
    Bytes in_window = 0;
    for (const MemorySample& sample : stored) {
        in_window = std::max(in_window, sample.lane == LaneId{0} ? sample.peak : 0);
    }
    ASSERT_LT(in_window, simulation.lanes[0].peak_bytes) << "the run's last micro-batch keeps its graph";
    Simulation shown = simulation;
    EXPECT_EQ(take_stored_tasks(shown, simulation.timeline, stored), std::nullopt);
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        EXPECT_EQ(shown.lanes[lane].peak_bytes, simulation.lanes[lane].peak_bytes);
    }
}

TEST(StoredSimulation, WithReplicasLastsUntilTheLastAllReduce) {
    PipelineOptions options = sampleOptions({});
    options.schedule = Schedule::one_f_one_b;
    options.batch *= 2;
    options.replicas = 2;
    const Simulation simulation = simulate(sampleProfile({}), options);
    Nanoseconds last{0};
    for (const Slice& slice : simulation.timeline.slices) {
        last = slice.key.kind == TaskKind::all_reduce ? std::max(last, slice.end) : last;
    }
    ASSERT_GT(last, Nanoseconds{0});
    EXPECT_EQ(one_step_statistics(simulation.timeline).end, last);
    EXPECT_EQ(one_step_statistics(simulation).end, last);
}
}  // namespace
}  // namespace pipescope
