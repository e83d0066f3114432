#include "simulator/replay.h"

#include "simulator/pipeline_graph.h"
#include "simulator/simulation.h"
#include "simulator/task_clock.h"
#include "simulator/task_costs.h"
#include "tests/simulator/random_pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
/// A run of two steps that went as simulated, but for a hand-off before each task.
class ReplayOfARun : public ::testing::Test {
protected:
    ReplayOfARun() {
        options_.balance = Balance({1, 2});
        options_.chunks = options_.batch = 4;
        record(Nanoseconds{0});
    }

    void record(Nanoseconds hand_off) {
        const TaskCosts costs(profile_, options_);
        const TaskGraph graph = pipeline_graph(options_, costs);
        std::vector<std::int64_t> lengths;
        for (const Task& task : graph.tasks()) {
            lengths.push_back(costs.duration(task) + hand_off.count());
        }
        std::vector<std::int64_t> ends(lengths.size());
        TaskClock(graph).run(std::span<const std::int64_t>(lengths), ends);
        timeline_ = Timeline{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
        for (const std::int32_t step : {3, 4}) {
            for (TaskIndex task = 0; task < ends.size(); ++task) {
                TaskKey key = graph.tasks()[task].key;
                key.step = step;
                const Nanoseconds end{step * 1'000'000 + ends[task]};
                timeline_.slices.push_back(
                    {key, graph.tasks()[task].lane, end - Nanoseconds{costs.duration(graph.tasks()[task])}, end, 0});
            }
        }
        sort_slices(timeline_);
    }
    std::optional<Replay> replayed() const { return replay({timeline_, {}, {3, 4}, {}}, profile_, options_); }

    Profile profile_ = uniform_profile(3);
    PipelineOptions options_;
    Timeline timeline_;
};

TEST_F(ReplayOfARun, GivesTheRunBackWhereNothingWasLostBetweenTasks) {
    const auto replay = replayed();
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->step_time, simulate(profile_, options_).step_time);
    EXPECT_EQ(replay->error, 0);
    EXPECT_EQ(replay->with_gaps_error, 0);
}

TEST(ReplayOfTurns, WaitsForTheCoreAsTheRunDid) {
    const Profile profile = uniform_profile(3);
    PipelineOptions options;
    options.balance = Balance({1, 1, 1});
    options.chunks = options.batch = 4;
    options.devices = {"cpu", "cpu", "cpu"};
    options.host_cores = 2;
    const Simulation simulated = simulate(profile, options);
    const std::optional<Replay> replay =
        pipescope::replay({simulated.timeline, {}, {simulated.timeline.slices.front().key.step}, {}}, profile, options);
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->step_time, simulated.step_time);
    EXPECT_EQ(replay->with_gaps_error, 0);
    options.host_cores = 3;
    const std::optional<Replay> unaware =
        pipescope::replay({simulated.timeline, {}, {simulated.timeline.slices.front().key.step}, {}}, profile, options);
    ASSERT_TRUE(unaware);
    EXPECT_LT(unaware->step_time, simulated.step_time);
}

TEST_F(ReplayOfARun, IsShorterByTheHandOffsAndExactWithThem) {
    record(Nanoseconds{50});
    const auto replay = replayed();
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->step_time, simulate(profile_, options_).step_time);
    EXPECT_LT(replay->error, -0.01);
    EXPECT_EQ(replay->with_gaps_error, 0);
}

TEST_F(ReplayOfARun, SeesATaskThatDidNotWaitAsTheScheduleSays) {
    // Lane 1's last backward ran before lane 1's first forward ended: no gap can give that back.
    for (Slice& slice : timeline_.slices) {
        if (slice.lane == LaneId{1} && slice.key.kind == TaskKind::backward && slice.key.micro_batch == 0) {
            slice.end -= slice.start - Nanoseconds{slice.key.step * 1'000'000};
            slice.start = Nanoseconds{slice.key.step * 1'000'000};
        }
    }
    const auto replay = replayed();
    ASSERT_TRUE(replay);
    EXPECT_GT(replay->with_gaps_error, 0.01);
}

TEST_F(ReplayOfARun, NeedsEveryTaskOfEveryStep) {
    std::erase_if(timeline_.slices, [](const Slice& slice) {
        return slice.key.step == 4 && slice.key.kind == TaskKind::backward && slice.key.micro_batch == 2;
    });
    EXPECT_FALSE(replayed());
}

TEST_F(ReplayOfARun, HasNoAnswerForAScheduleThatNeverDrains) {
    options_.schedule = "pipedream";
    EXPECT_FALSE(replayed());
}

TEST(Replay, HoldsForEveryScheduleWithSkipsAndCopies) {
    std::mt19937 random(7);
    for (const char* schedule : {"gpipe", "1f1b", "interleaved"}) {
        const Profile profile = random_profile(random, 6, true);
        PipelineOptions options;
        options.schedule = schedule;
        options.balance = Balance({1, 2, 2, 1});
        options.chunks = options.batch = 4;
        if (options.schedule == "interleaved") {
            options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
        }
        options.link = {1, 7};
        const Simulation simulation = simulate(profile, options);
        const std::vector<MemorySample> memory;
        const auto replayed = replay({simulation.timeline, memory, {0}, {}}, profile, options);
        ASSERT_TRUE(replayed) << schedule;
        EXPECT_EQ(replayed->error, 0) << schedule;
        EXPECT_EQ(replayed->with_gaps_error, 0) << schedule;
        for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
            EXPECT_EQ(replayed->peak_bytes.at(lane), simulation.lanes[lane].peak_bytes) << schedule;
        }
    }
}
}  // namespace
}  // namespace pipescope
