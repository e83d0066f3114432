#include "analysis/replay.h"

#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace pipescope {
namespace {
/// A run of two steps like the simulation, except for a hand-off before each task.
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
    std::optional<Replay> replayed() const {
        return replay({timeline_, {}, {3, 4}, {}}, CheckedProfile(profile_), options_);
    }

    Profile profile_ = uniform_profile(3);
    PipelineOptions options_;
    Timeline timeline_;
};

TEST_F(ReplayOfARun, GivesTheRunBackWhereNothingWasLostBetweenTasks) {
    const auto replay = replayed();
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->step_time, simulate(CheckedProfile(profile_), options_).step_time);
    EXPECT_EQ(replay->error, 0);
    EXPECT_EQ(replay->with_gaps_error, 0);
}

// Between processes, a copy begins when the sender packs it, while the one ahead may still be on its way.
TEST_F(ReplayOfARun, CountsACopysWaitForTheOneAheadOnce) {
    options_.hardware.link.latency_ns = 1e6;
    record(Nanoseconds{0});
    std::size_t moved = 0;
    for (Slice& slice : timeline_.slices) {
        if (slice.key.kind == TaskKind::copy_forward) {
            const TaskKey producer{slice.key.step, TaskKind::forward, slice.key.partition, slice.key.micro_batch, -1};
            const auto produced =
                std::ranges::find_if(timeline_.slices, [&](const Slice& each) { return each.key == producer; });
            moved += produced->end < slice.start ? 1 : 0;
            slice.start = produced->end;
        }
    }
    ASSERT_GT(moved, 2U);
    const auto replay = replayed();
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->error, 0);
    EXPECT_EQ(replay->with_gaps_error, 0);
}

TEST(ReplayOfTurns, WaitsForTheCoreAsTheRunDid) {
    const CheckedProfile profile = uniform_profile(3);
    PipelineOptions options;
    options.balance = Balance({1, 1, 1});
    options.chunks = options.batch = 4;
    options.hardware.devices = {"cpu", "cpu", "cpu"};
    options.hardware.host_cores = 2;
    const Simulation simulated = simulate(profile, options);
    const std::optional<Replay> replay =
        pipescope::replay({simulated.timeline, {}, {simulated.timeline.slices.front().key.step}, {}}, profile, options);
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->step_time, simulated.step_time);
    EXPECT_EQ(replay->with_gaps_error, 0);
    options.hardware.host_cores = 3;
    const std::optional<Replay> unaware =
        pipescope::replay({simulated.timeline, {}, {simulated.timeline.slices.front().key.step}, {}}, profile, options);
    ASSERT_TRUE(unaware);
    EXPECT_LT(unaware->step_time, simulated.step_time);
}

/// A step in which `lanes` lanes shared `cores` cores in a random order: each free core goes to one of the waiting
/// lanes.
MeasuredTasks step_in_some_order(const TaskGraph& graph, const std::vector<std::int64_t>& durations, int cores,
                                 std::mt19937& random) {
    const TaskClock clock(graph);
    const std::size_t count = durations.size();
    MeasuredTasks tasks{std::vector<std::int64_t>(count), std::vector<std::int64_t>(count, -1)};
    std::vector<std::int64_t> free_from(static_cast<std::size_t>(cores), 0);
    for (std::size_t done = 0; done < count; ++done) {
        auto core = std::min_element(free_from.begin(), free_from.end());
        std::vector<TaskIndex> first;
        std::int64_t start = std::numeric_limits<std::int64_t>::max();
        for (TaskIndex task = 0; task < count; ++task) {
            const auto needed = clock.needed(task);
            const bool may_run = tasks.ends[task] < 0 &&
                                 std::all_of(needed.begin(), needed.end(), [&](auto k) { return tasks.ends[k] >= 0; });
            if (!may_run) {
                continue;
            }
            std::int64_t ready = is_compute(graph.tasks()[task].key.kind) ? *core : 0;
            for (const std::uint32_t k : needed) {
                ready = std::max(ready, tasks.ends[k]);
            }
            if (ready < start) {
                start = ready;
                first.clear();
            }
            if (ready == start) {
                first.push_back(task);
            }
        }
        const TaskIndex task = first[random() % first.size()];
        tasks.starts[task] = start;
        tasks.ends[task] = start + durations[task];
        if (is_compute(graph.tasks()[task].key.kind)) {
            *core = tasks.ends[task];
        }
    }
    return tasks;
}

TEST(ReplayOfTurns, KeepsTheOrderInWhichLanesGotTheirCores) {
    std::mt19937 random(11);
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.chunks = options.batch = 6;
    options.hardware.devices = {"cpu", "cpu", "cpu", "cpu"};
    options.hardware.host_cores = 2;
    const Profile profile = uniform_profile(4);
    const TaskCosts costs(profile, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    std::set<std::int64_t> makespans;
    for (int trial = 0; trial < 50; ++trial) {
        std::vector<std::int64_t> durations;
        for (const Task& task : graph.tasks()) {
            const std::int64_t duration = costs.duration(task);
            durations.push_back(duration > 0 ? duration + static_cast<std::int64_t>(random() % 3) * 500 : 0);
        }
        const MeasuredTasks tasks = step_in_some_order(graph, durations, 2, random);
        const ReplayedStep step = replay_step(graph, tasks, cores_in_turn(options));
        EXPECT_EQ(step.replayed, step.measured) << "trial " << trial;
        const std::vector<bool> none(graph.tasks().size());
        const auto is_late = [](std::int64_t delay) { return delay > 0; };
        EXPECT_EQ(std::ranges::count_if(start_delays(graph, tasks, none, cores_in_turn(options)), is_late), 0);
        EXPECT_GT(std::ranges::count_if(start_delays(graph, tasks, none), is_late), 0) << "waits for cores";
        makespans.insert(step.measured);
    }
    EXPECT_GT(makespans.size(), 5U) << "the orders were not different ones";
}

TEST_F(ReplayOfARun, IsShorterByTheHandOffsAndExactWithThem) {
    record(Nanoseconds{50});
    const auto replay = replayed();
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->step_time, simulate(CheckedProfile(profile_), options_).step_time);
    EXPECT_LT(replay->error, -0.01);
    EXPECT_EQ(replay->with_gaps_error, 0);
}

TEST_F(ReplayOfARun, FindsHowMuchLaterThanItCouldEachTaskStarted) {
    record(Nanoseconds{50});
    const TaskCosts costs(profile_, options_);
    const TaskGraph graph = pipeline_graph(options_, costs);
    const auto steps = measured_tasks(timeline_, std::array{3, 4}, graph);
    ASSERT_TRUE(steps);
    std::vector<bool> is_instant;
    for (const Task& task : graph.tasks()) {
        is_instant.push_back(is_copy(task.key.kind));
    }
    const TaskClock clock(graph);
    const std::vector<std::int64_t> all = start_delays(graph, steps->front(), std::vector<bool>(is_instant.size()));
    const std::vector<std::int64_t> beside = start_delays(graph, steps->front(), is_instant);
    int behind_copies = 0;
    for (TaskIndex task = 0; task < all.size(); ++task) {
        const std::string name = to_string(graph.tasks()[task].key);
        EXPECT_EQ(all[task], task == 0 ? 0 : 50) << name;  // the step begins with the first
        if (is_instant[task]) {
            EXPECT_EQ(beside[task], 0) << name;
            continue;
        }
        // Behind a copy that decides when it starts, a task waits for the hand-off of the copy too.
        EXPECT_TRUE(beside[task] == all[task] || beside[task] > 50) << name << " " << beside[task];
        behind_copies += beside[task] > 50 ? 1 : 0;
    }
    EXPECT_GT(behind_copies, 0);
}

TEST_F(ReplayOfARun, SeesATaskThatDidNotWaitAsTheScheduleSays) {
    // Lane 1's last backward ran before its first forward ended: no gap can reproduce that.
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
    options_.schedule = Schedule::pipedream;
    EXPECT_FALSE(replayed());
}

TEST(Replay, HoldsForEveryScheduleWithSkipsAndCopies) {
    std::mt19937 random(7);
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b}) {
        const CheckedProfile profile = random_profile(random, 6, true);
        PipelineOptions options;
        options.schedule = schedule;
        options.balance = Balance({1, 2, 2, 1});
        options.chunks = options.batch = 4;
        if (options.schedule == Schedule::interleaved_1f1b) {
            options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
        }
        options.hardware.link = {1, 7};
        const Simulation simulation = simulate(profile, options);
        const auto replayed = replay({simulation.timeline, {}, {0}, {}}, profile, options);
        ASSERT_TRUE(replayed) << to_string(schedule);
        EXPECT_EQ(replayed->error, 0) << to_string(schedule);
        EXPECT_EQ(replayed->with_gaps_error, 0) << to_string(schedule);
        for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
            EXPECT_EQ(replayed->peak_bytes.at(lane), simulation.lanes[lane].peak_bytes) << to_string(schedule);
        }
    }
}
}  // namespace
}  // namespace pipescope
