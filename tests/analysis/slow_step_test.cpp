#include "analysis/slow_step.h"

#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A step of 1f1b on two lanes: forwards of 1 ms, backwards of 2 ms, copies that take no time.
class WhyAStepIsSlow : public ::testing::Test {
protected:
    WhyAStepIsSlow() {
        options_.balance = Balance({1, 1});
        options_.chunks = options_.batch = 4;
        options_.schedule = Schedule::one_f_one_b;
        options_.checkpoint = Checkpoint::never;
        graph_ = std::make_shared<const TaskGraph>(pipeline_graph(options_, TaskCosts(profile_, options_)));
    }

    static std::int64_t usual(const TaskKey& key) {
        return key.kind == TaskKind::forward ? 1'000'000 : key.kind == TaskKind::backward ? 2'000'000 : 0;
    }

    StepGraph step(std::int32_t number, const std::function<std::int64_t(const TaskKey&)>& duration) {
        std::vector<std::int64_t> lengths;
        for (const Task& task : graph_->tasks()) {
            lengths.push_back(duration(task.key));
        }
        std::vector<std::int64_t> ends(lengths.size());
        TaskClock(*graph_).run(std::span<const std::int64_t>(lengths), ends);
        Timeline timeline{Source::measured, std::vector<LaneInfo>(2), {}};
        for (TaskIndex index = 0; index < ends.size(); ++index) {
            const Task& task = graph_->tasks()[index];
            timeline.slices.push_back(
                {task.key, task.lane, Nanoseconds{ends[index] - lengths[index]}, Nanoseconds{ends[index]}, 0});
            timeline.slices.back().key.step = number;
        }
        sort_slices(timeline);
        const StepStatistics statistics = step_statistics(timeline, number);
        return step_graph_of(timeline, {statistics.start.count(), statistics.end.count()}, graph_);
    }

    SlowStep compared(const std::function<std::int64_t(const TaskKey&)>& duration) {
        const SlowStep slow = compare_steps(step(4, duration), step(2, usual), 4, 2);
        std::int64_t explained = slow.waits.more();
        for (const KindInStep& kind : slow.kinds) {
            explained += kind.path.more();
        }
        EXPECT_EQ(explained, slow.time.more()) << "the parts on the critical path sum to the difference";
        return slow;
    }

    Profile profile_ = uniform_profile(2);
    PipelineOptions options_;
    std::shared_ptr<const TaskGraph> graph_;
};

TEST_F(WhyAStepIsSlow, NamesTheKindTheLaneAndTheFirstTask) {
    const auto slow_backwards = [](const TaskKey& key) {
        return usual(key) * (key.kind == TaskKind::backward && key.partition == 1 && key.micro_batch >= 1 ? 3 : 1);
    };
    const SlowStep slow = compared(slow_backwards);
    EXPECT_EQ(slow.kinds.front().kind, TaskKind::backward);
    EXPECT_EQ(slow.kinds.front().time.more(), 3 * 4'000'000);
    ASSERT_TRUE(slow.first);
    EXPECT_EQ(slow.first->task, (TaskKey{4, TaskKind::backward, 1, 1, -1}));
    EXPECT_EQ(slow.first->time.step, 6'000'000);
    EXPECT_EQ(slow.lanes[0].busy.more(), 0);
    EXPECT_EQ(slow.lanes[1].busy.more(), 3 * 4'000'000);
    EXPECT_EQ(slow.largest.size(), 3U);
    EXPECT_THAT(
        slow_step_text(slow),
        AllOf(StartsWith("Step 4 takes "), HasSubstr("longer than the median step 2. On the critical path, it is "),
              HasSubstr("points backwards"), HasSubstr("Mostly lane 1 differs: its tasks took 100 % longer."),
              HasSubstr("The first task that differed: backward of micro-batch 1 on partition 1, 3 times as "
                        "long.")));
}

TEST_F(WhyAStepIsSlow, ComparesTwoLanesByKindCauseAndFirstTask) {
    const StepGraph graph = step(4, [](const TaskKey& key) {
        return usual(key) * (key.kind == TaskKind::backward && key.partition == 1 && key.micro_batch >= 1 ? 3 : 1);
    });
    const std::vector<Bubble> bubbles = bubbles_of(graph);
    const LaneDifference slow = compare_lanes(graph, bubbles, 4, LaneId{1}, LaneId{0});
    EXPECT_EQ(slow.busy.step, 4 * 1'000'000 + 2'000'000 + 3 * 6'000'000);
    EXPECT_EQ(slow.busy.usual, 4 * 3'000'000);
    EXPECT_EQ(slow.kinds.front().kind, TaskKind::backward);
    EXPECT_EQ(slow.kinds.front().time.more(), 3 * 4'000'000);
    EXPECT_EQ(slow.idle.step, slow.step_time - slow.busy.step);
    EXPECT_EQ(slow.idle.usual, slow.step_time - slow.busy.usual);
    StepPair sum;
    for (const StepPair& cause : slow.causes) {
        sum.step += cause.step;
        sum.usual += cause.usual;
    }
    EXPECT_EQ(sum.step, slow.idle.step);
    EXPECT_EQ(sum.usual, slow.idle.usual);
    ASSERT_TRUE(slow.first);
    EXPECT_EQ(slow.first->task, (TaskKey{4, TaskKind::backward, 1, 1, -1})) << "joined with that of partition 0";
    EXPECT_EQ(slow.largest.size(), 3U);
    EXPECT_THAT(lane_difference_text(slow),
                AllOf(StartsWith("Lane 1 works 100 % longer than lane 0. By kind of task, it is "),
                      HasSubstr(" points backwards of the step. Its bubbles \""), HasSubstr(" of the step less)."),
                      HasSubstr("The first task that differed: backward of micro-batch 1 on partition 1, 3 times as "
                                "long.")));
    EXPECT_EQ(median_lane(graph), LaneId{1}) << "the longer one of two";
    EXPECT_EQ(lane_difference_text(compare_lanes(graph, bubbles, 4, LaneId{0}, LaneId{0})),
              "Lane 0 is the lane of median busy time, with which others are compared.");
}

TEST_F(WhyAStepIsSlow, TellsASlowMachineFromASlowLane) {
    const SlowStep slow = compared([](const TaskKey& key) { return usual(key) * 2; });
    EXPECT_DOUBLE_EQ(slow.factor, 2);
    EXPECT_DOUBLE_EQ(slow.change(), 1);
    EXPECT_THAT(slow_step_text(slow), AllOf(HasSubstr("Step 4 takes 100 % longer"),
                                            HasSubstr("took about 2 times as long on all lanes, so the machine was")));
}

TEST_F(WhyAStepIsSlow, SaysThatAStepIsAsUsual) {
    EXPECT_EQ(slow_step_text(compared(usual)), "Step 4 takes as long as the median step 2, within 1 %.");
    SlowStep same = compared(usual);
    same.step = same.usual_step;
    EXPECT_EQ(slow_step_text(same), "Step 2 is the median step, with which others are compared.");
}

TEST_F(WhyAStepIsSlow, ExplainsAFastStepToo) {
    const SlowStep fast = compared([](const TaskKey& key) { return usual(key) / 2; });
    EXPECT_THAT(slow_step_text(fast),
                AllOf(StartsWith("Step 4 takes 50 % less than the median step 2."), Not(HasSubstr("longer"))));
}

TEST_F(WhyAStepIsSlow, AddsASaveBetweenSteps) {
    SlowStep step = compared(usual);
    RecordedRun run;
    const auto record = [](std::int32_t number, std::int64_t outside) {
        StepRecord each;
        each.step = number;
        each.start = each.wall_start = Nanoseconds{0};
        each.end = Nanoseconds{15'000'000};
        each.wall_end = Nanoseconds{15'000'000 + outside};
        return each;
    };
    run.steps = {record(2, 1'000'000), record(4, 7'000'000)};
    add_records(run, step);
    ASSERT_TRUE(step.outside);
    EXPECT_EQ(step.outside->more(), 6'000'000);
    EXPECT_THAT(slow_step_text(step), HasSubstr("Outside the pipeline, the training loop took 40 % more of the step"));
}

TEST_F(WhyAStepIsSlow, NamesTheLoadOfTheMachine) {
    SlowStep step = compared([](const TaskKey& key) { return usual(key) * 2; });
    RecordedRun run;
    const auto record = [](std::int32_t number, double others, std::int64_t over) {
        StepRecord each;
        each.step = number;
        each.start = each.wall_start = Nanoseconds{number * 1'000'000'000};
        each.end = each.wall_end = each.start + Nanoseconds{1'000'000'000};
        each.load = StepLoad{{others, 0.01, std::nullopt}, Nanoseconds{over}};
        return each;
    };
    run.steps = {record(2, 0.03, 1'000'000'000), record(4, 0.4, 1'000'000'000)};
    add_records(run, step);
    ASSERT_TRUE(step.load);
    step.time.step = 1'000'000'000;
    EXPECT_THAT(slow_step_text(step),
                HasSubstr("Other programs took 40 % of the cores' time in this step, and 3 % in the median step."));
    EXPECT_THAT(slow_step_text(step), Not(HasSubstr("The host"))) << "it took as much in both";
    step.load->step.over = Nanoseconds{2'500'000'000};
    EXPECT_THAT(slow_step_text(step),
                HasSubstr("Other programs took 40 % of the cores' time in 2.5 s that include this step, and 3 % in the "
                          "median step."));
    run.steps[1].load.reset();
    run.steps.push_back(record(5, 0.2, 2'000'000'000));
    EXPECT_EQ(load_of_step(run, 4)->shares.others, 0.2) << "measured over both steps";
    EXPECT_FALSE(load_of_step(run, 3)) << "there is no such step";
    run.steps[2].load->over = Nanoseconds{1'000'000'000};
    EXPECT_FALSE(load_of_step(run, 4)) << "of the next step alone";
}

TEST_F(WhyAStepIsSlow, RefusesAStepThatIsNotThere) {
    Timeline timeline{Source::measured, std::vector<LaneInfo>(2), {}};
    for (const StepTask& task : step(2, usual).tasks()) {
        timeline.slices.push_back({task.key, task.lane, Nanoseconds{task.start}, Nanoseconds{task.end}, 0});
    }
    RecordedRun run;
    run.graph = graph_;
    const RunCheck check;
    MeasuredSteps steps;
    StepRecord only;
    only.step = 2;
    steps.steps = {only};
    EXPECT_THAT(
        [&] {
            why_slow({run, check, steps, timeline}, 7);
        },
        testing::ThrowsMessage<UsageError>(HasSubstr("step 7 is not in the trace, whose steps are 2 to 2")));
    EXPECT_EQ(why_slow({run, check, steps, timeline}, 2).usual_step, 2);
}
}  // namespace
}  // namespace pipescope
