#include "analysis/root_causes.h"

#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

namespace pipescope {
namespace {
/// A step of 1f1b on four lanes: forwards of 1 ms, backwards of 2 ms, messages that take no time.
class RootCausesOfARun : public ::testing::Test {
protected:
    RootCausesOfARun() {
        options_.balance = Balance({1, 1, 1, 1});
        options_.chunks = options_.batch = 8;
        options_.schedule = Schedule::one_f_one_b;
        options_.checkpoint = Checkpoint::never;
    }

    enum class Gaps { launches, collectives, queues };

    /// The root causes, if each task takes `duration` ns, after `gap` ns in which the host has not launched it, in
    /// which a collective waits for another rank, or in which nothing but other messages may run.
    RootCauses found(
        const std::function<std::int64_t(const TaskKey&)>& duration,
        const std::function<std::int64_t(const TaskKey&)>& gap = [](const TaskKey&) { return 0; },
        const std::map<std::int32_t, std::int64_t>& kernels = {}, Gaps gaps = Gaps::launches) {
        const TaskCosts costs(profile_, options_);
        const TaskGraph graph = pipeline_graph(options_, costs);
        std::vector<std::int64_t> lengths;
        for (const Task& task : graph.tasks()) {
            lengths.push_back(duration(task.key) + gap(task.key));
        }
        std::vector<std::int64_t> ends(lengths.size());
        TaskClock(graph).run(std::span<const std::int64_t>(lengths), ends);
        Timeline timeline{Source::measured, std::vector<LaneInfo>(4), {}};
        std::vector<TaskOnDevice> on_device;
        std::vector<LaneWork> work;
        for (TaskIndex index = 0; index < ends.size(); ++index) {
            const Task& task = graph.tasks()[index];
            const Nanoseconds end{ends[index]};
            const Nanoseconds start = end - Nanoseconds{duration(task.key)};
            timeline.slices.push_back({task.key, task.lane, start, end, 0});
            timeline.slices.back().key.step = 0;
            const auto count = kernels.find(task.key.partition);
            on_device.push_back(
                {timeline.slices.back().key, count == kernels.end() ? 5 : count->second, 0, start, end, end - start,
                 gap(task.key) > 0 && gaps == Gaps::launches ? start : start - std::chrono::milliseconds(100)});
            if (gaps == Gaps::collectives && gap(task.key) > 0) {
                for (const LaneWorkKind kind : {LaneWorkKind::collective, LaneWorkKind::collective_wait}) {
                    work.push_back({task.lane, kind, start - Nanoseconds{gap(task.key)}, start});
                }
            }
        }
        sort_slices(timeline);
        const std::optional<RootCauses> causes =
            root_causes({timeline, {}, {0}, {}}, graph, TaskLaunches(on_device, joined_work(work)));
        EXPECT_TRUE(causes);
        double sum = 0;
        for (const RootCauses::Part& part : causes.value_or(RootCauses{}).parts) {
            sum += part.share;
        }
        EXPECT_NEAR(sum, step_statistics(timeline, 0).bubble_fraction, 1e-9);
        return causes.value_or(RootCauses{});
    }

    static std::int64_t usual(const TaskKey& key) {
        return key.kind == TaskKind::forward ? 1'000'000 : key.kind == TaskKind::backward ? 2'000'000 : 0;
    }

    Profile profile_ = uniform_profile(4);
    PipelineOptions options_;
};

TEST_F(RootCausesOfARun, AreTheRampIfNothingElseIsWrong) {
    const RootCauses causes = found(usual);
    EXPECT_EQ(causes.main, RootCause::ramp);
    EXPECT_NEAR(causes.of(RootCause::ramp).share, 3.0 / 11, 1e-9);  // (p - 1) / (m + p - 1)
}

// Equal durations, unequal kernels: only the number of kernels tells a heavy partition from a slow device.
TEST_F(RootCausesOfARun, TellALongPartitionFromASlowLane) {
    const auto longer = [](const TaskKey& key) { return usual(key) * (key.partition == 2 ? 3 : 2) / 2; };
    const RootCauses slow = found(longer);
    EXPECT_EQ(slow.main, RootCause::slow_lane);
    EXPECT_EQ(slow.slow_lane, LaneId{2});
    const RootCauses heavy = found(longer, [](const TaskKey&) { return 0; }, {{2, 7}});
    EXPECT_EQ(heavy.main, RootCause::imbalance);
    EXPECT_EQ(heavy.slow_lane, std::nullopt);
    EXPECT_EQ(heavy.of(RootCause::slow_lane).time.count(), 0);
}

// A CUDA graph hides the number of kernels. Models have their embedding and loss at the ends.
TEST_F(RootCausesOfARun, TakeALongEndForImbalanceIfKernelsAreUnknown) {
    const std::map<std::int32_t, std::int64_t> graphs{{0, 1}, {1, 1}, {2, 1}, {3, 1}};
    const auto longer = [](std::int32_t partition) {
        return [partition](const TaskKey& key) { return usual(key) * (key.partition == partition ? 3 : 2) / 2; };
    };
    const auto none = [](const TaskKey&) { return 0; };
    EXPECT_EQ(found(longer(3), none, graphs).main, RootCause::imbalance);
    EXPECT_EQ(found(longer(1), none, graphs).main, RootCause::slow_lane);
}

TEST_F(RootCausesOfARun, NameMessages) {
    const RootCauses causes = found([](const TaskKey& key) { return is_copy(key.kind) ? 800'000 : usual(key); });
    EXPECT_EQ(causes.main, RootCause::network);
    EXPECT_EQ(causes.of(RootCause::imbalance).time.count(), 0);
}

/// One lane with a forward and a backward of 10 ns each; the backward starts at `start`.
RootCauses on_one_lane(std::int64_t start, Nanoseconds busy, Nanoseconds launch_gap,
                       const std::vector<LaneWork>& work = {}) {
    PipelineOptions options;
    options.balance = Balance({1});
    options.chunks = options.batch = 1;
    options.checkpoint = Checkpoint::never;
    const Profile profile = uniform_profile(1);
    const TaskGraph graph = pipeline_graph(options, TaskCosts(profile, options));
    const TaskKey forward{0, TaskKind::forward, 0, 0, -1};
    const TaskKey backward{0, TaskKind::backward, 0, 0, -1};
    const Nanoseconds end{start + 10};
    const Timeline timeline{
        Source::measured,
        std::vector<LaneInfo>(1),
        {{forward, LaneId{0}, Nanoseconds{0}, Nanoseconds{10}, 0}, {backward, LaneId{0}, Nanoseconds{start}, end, 0}}};
    const std::vector<TaskOnDevice> devices{
        {backward, 2, 0, Nanoseconds{start}, end, busy, Nanoseconds{start}, launch_gap}};
    return root_causes({timeline, {}, {0}, {}}, graph, TaskLaunches(devices, joined_work(work))).value_or(RootCauses{});
}

TEST_F(RootCausesOfARun, CountTimeInWhichTasksOverlapOnce) {
    const RootCauses causes = on_one_lane(5, Nanoseconds{10}, Nanoseconds{0});
    double sum = 0;
    for (const RootCauses::Part& part : causes.parts) {
        sum += part.share;
    }
    EXPECT_NEAR(sum, 0, 1e-9) << "the lane works all the time";
}

TEST_F(RootCausesOfARun, TakeGapsWithinATaskForTheHostsOnlyIfTheyEndWithALaunch) {
    const RootCauses late = on_one_lane(10, Nanoseconds{6}, Nanoseconds{4});
    EXPECT_NEAR(late.of(RootCause::launch).share, 0.2, 1e-9);
    const RootCauses other = on_one_lane(10, Nanoseconds{6}, Nanoseconds{0});
    EXPECT_NEAR(other.of(RootCause::launch).share, 0, 1e-9);
    EXPECT_NEAR(other.of(RootCause::other).share, 0.2, 1e-9);
}

// A collective of 20 ns waits 6 ns for another rank, and takes 4 ns longer than the shortest of its kind.
TEST_F(RootCausesOfARun, PartAnExposedCollective) {
    const auto at = [](LaneWorkKind kind, int start, int end) {
        return LaneWork{LaneId{0}, kind, Nanoseconds{start}, Nanoseconds{end}};
    };
    const RootCauses causes =
        on_one_lane(30, Nanoseconds{10}, Nanoseconds{0},
                    {at(LaneWorkKind::collective, 5, 25), at(LaneWorkKind::collective_wait, 5, 13),
                     at(LaneWorkKind::collective_slow, 21, 25)});
    EXPECT_NEAR(causes.of(RootCause::late_rank).share, 3.0 / 40, 1e-9) << "the task hides 5 ns of the wait";
    EXPECT_NEAR(causes.of(RootCause::network).share, 4.0 / 40, 1e-9);
    EXPECT_NEAR(causes.of(RootCause::collective).share, 8.0 / 40, 1e-9);
    EXPECT_NEAR(causes.of(RootCause::launch).share, 5.0 / 40, 1e-9);
    EXPECT_NEAR(causes.of(RootCause::other).share, 0, 1e-9);
    EXPECT_EQ(causes.main, RootCause::collective);
}

// Lane 2 waits 400 ns for another rank's collective before each task, so the other lanes wait for lane 2.
// Messages on one stream: each waits for the one before it, long after its own launch.
TEST_F(RootCausesOfARun, NameTheNetworkForMessagesThatWaitForOthers) {
    const auto queued = [](const TaskKey& key) { return is_copy(key.kind) ? 400'000 : 0; };
    const RootCauses causes = found(usual, queued, {}, Gaps::queues);
    EXPECT_EQ(causes.main, RootCause::network);
    EXPECT_NEAR(causes.of(RootCause::other).share, 0, 1e-3);
}

TEST_F(RootCausesOfARun, NameALateRankForWhatItMakesOtherLanesWait) {
    const auto late = [](const TaskKey& key) { return key.partition == 2 && is_compute(key.kind) ? 400'000 : 0; };
    const RootCauses causes = found(usual, late, {}, Gaps::collectives);
    EXPECT_EQ(causes.main, RootCause::late_rank);
    EXPECT_NEAR(causes.of(RootCause::other).share, 0, 1e-3);
    EXPECT_GT(causes.of(RootCause::late_rank).share, 0.1) << "lane 2 itself waits for 0.04 of it";
}

TEST_F(RootCausesOfARun, NameLateLaunches) {
    const RootCauses causes =
        found(usual, [](const TaskKey& key) { return key.kind == TaskKind::forward ? 500'000 : 0; });
    EXPECT_EQ(causes.main, RootCause::launch);
    EXPECT_NEAR(causes.of(RootCause::other).share, 0, 1e-9);
}
}  // namespace
}  // namespace pipescope
