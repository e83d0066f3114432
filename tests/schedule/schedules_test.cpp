#include "schedule/schedules.h"

#include "schedule/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing::ThrowsMessage;

/// "0 1 0' ..": micro-batches of one lane without losses, with a mark for backward. With several partitions per lane,
/// the partition comes first.
std::string lane_micro_batches(const TaskGraph& graph, int lane) {
    std::string text;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        const TaskKey& key = graph.tasks()[task].key;
        if (key.kind == TaskKind::loss) {
            continue;
        }
        text += text.empty() ? "" : " ";
        text += graph.shape().placement.empty() ? "" : std::to_string(key.partition) + ":";
        text += (key.kind == TaskKind::recompute ? "r" : "") + std::to_string(key.micro_batch) +
                (key.kind == TaskKind::backward          ? "'"
                 : key.kind == TaskKind::backward_weight ? "w"
                                                         : "");
    }
    return text;
}

/// Maximum number of micro-batches on this lane between their forward and their backward.
int most_live(const TaskGraph& graph, int lane) {
    int live = 0;
    int most = 0;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        const TaskKind kind = graph.tasks()[task].key.kind;
        live += kind == TaskKind::forward ? 1 : kind == TaskKind::backward ? -1 : 0;
        most = std::max(most, live);
    }
    return most;
}

TEST(OneFOneB, AlternatesForwardAndBackwardOnceTheLanesAreFilled) {
    const TaskGraph graph = make_schedule(
        Schedule::one_f_one_b, {.num_partitions = 3, .num_micro_batches = 4, .checkpoint = Checkpoint::never});
    EXPECT_EQ(lane_micro_batches(graph, 0), "0 1 2 0' 3 1' 2' 3'");
    EXPECT_EQ(lane_micro_batches(graph, 1), "0 1 0' 2 1' 3 2' 3'");
    EXPECT_EQ(lane_micro_batches(graph, 2), "0 0' 1 1' 2 2' 3 3'");
}

TEST(OneFOneB, HoldsAtMostAsManyMicroBatchesAsPartitionsLieBehind) {
    const PipelineShape shape{.num_partitions = 4, .num_micro_batches = 16};
    const TaskGraph one_f_one_b = make_schedule(Schedule::one_f_one_b, shape);
    const TaskGraph gpipe = make_schedule(Schedule::gpipe, shape);
    for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(most_live(one_f_one_b, j), 4 - j);
        EXPECT_EQ(most_live(gpipe, j), 16);
    }
}

TEST(OneFOneB, HasALossForEachMicroBatchAndNoBarrier) {
    const TaskGraph graph = make_schedule(Schedule::one_f_one_b, {.num_partitions = 2, .num_micro_batches = 2});
    const auto loss = graph.find({0, TaskKind::loss, 1, 0, -1});
    ASSERT_TRUE(loss);
    EXPECT_EQ(graph.dependencies(*loss).size(), 1u);
    EXPECT_EQ(graph.dependencies(*graph.find({0, TaskKind::recompute, 0, 0, -1})).size(), 1u);
}

TEST(OneFOneB, RunsWithFewerMicroBatchesThanPartitions) {
    const TaskGraph graph = make_schedule(
        Schedule::one_f_one_b, {.num_partitions = 4, .num_micro_batches = 2, .checkpoint = Checkpoint::never});
    EXPECT_EQ(lane_micro_batches(graph, 0), "0 1 0' 1'");
}

TEST(Interleaved, TakesItsPartitionsInTurnByGroupsOfMicroBatches) {
    // two lanes, two partitions each; lane 0 warms up with (2 - 0 - 1) * 2 + 2 = 4 forwards
    const TaskGraph graph =
        make_schedule(Schedule::interleaved_1f1b, {.num_partitions = 4,
                                                   .num_micro_batches = 4,
                                                   .checkpoint = Checkpoint::never,
                                                   .placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}}});
    EXPECT_EQ(lane_micro_batches(graph, 0), "0:0 0:1 2:0 2:1 0:2 2:0' 0:3 2:1' 2:2 0:0' 2:3 0:1' 2:2' 2:3' 0:2' 0:3'");
    EXPECT_EQ(lane_micro_batches(graph, 1), "1:0 1:1 3:0 3:0' 3:1 3:1' 1:2 1:0' 1:3 1:1' 3:2 3:2' 3:3 3:3' 1:2' 1:3'");
}

TEST(Interleaved, RefusesShapesItCannotInterleave) {
    const PipelineShape one_each{.num_partitions = 4, .num_micro_batches = 4};
    EXPECT_THAT([&] { make_schedule(Schedule::interleaved_1f1b, one_each); },
                ThrowsMessage<UsageError>(HasSubstr("two or more partitions a lane")));
    EXPECT_THAT([&] { check_schedule(Schedule::interleaved_1f1b, one_each); },
                ThrowsMessage<UsageError>(HasSubstr("two or more partitions a lane")));
    EXPECT_THAT(
        [] {
            make_schedule(Schedule::interleaved_1f1b, {.num_partitions = 4,
                                                       .num_micro_batches = 3,
                                                       .placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}}});
        },
        ThrowsMessage<UsageError>(HasSubstr("a multiple of 2 micro-batches")));
}

TEST(ZeroBubbleH1, PutsTheWeightsOffWhereTheyFillTheBubble) {
    const TaskGraph graph = make_schedule(
        Schedule::zero_bubble_h1, {.num_partitions = 3, .num_micro_batches = 4, .checkpoint = Checkpoint::never});
    EXPECT_EQ(lane_micro_batches(graph, 0), "0 1 2 0' 0w 3 1' 1w 2' 2w 3' 3w");
    EXPECT_EQ(lane_micro_batches(graph, 1), "0 1 0' 2 1' 0w 3 2' 1w 3' 2w 3w");
    EXPECT_EQ(lane_micro_batches(graph, 2), "0 0' 1 1' 2 2' 0w 3 3' 1w 2w 3w");
    EXPECT_TRUE(splits_backward(Schedule::zero_bubble_h1));
}

TEST(ZeroBubbleH1, HoldsNoMoreMicroBatchesThanOneFOneB) {
    const PipelineShape shape{.num_partitions = 4, .num_micro_batches = 16};
    for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(most_live(make_schedule(Schedule::zero_bubble_h1, shape), j), 4 - j);
    }
}

TEST(ModelParallel, TakesOneMicroBatchAllTheWayBeforeTheNext) {
    const TaskGraph graph = make_schedule(Schedule::model_parallel, {.num_partitions = 2, .num_micro_batches = 2});
    EXPECT_EQ(lane_micro_batches(graph, 0), "0 r0 0' 1 1'");
    EXPECT_EQ(lane_micro_batches(graph, 1), "0 r0 0' 1 1'");
}

TEST(GPipe, GoesBackwardFirstFirstWhereAsked) {
    const TaskGraph graph = make_schedule(
        Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 3, .backward_order = BackwardOrder::first_first});
    EXPECT_EQ(lane_micro_batches(graph, 0), "0 1 2 r0 0' r1 1' 2'");
}

TEST(GPipe, WaitsForTheGradientBeforeAnOrdinaryRecompute) {
    const PipelineShape shape{.num_partitions = 2, .num_micro_batches = 2, .recompute_start = RecomputeStart::ordinary};
    const TaskGraph graph = make_schedule(Schedule::gpipe, shape);
    const auto recompute = *graph.find({0, TaskKind::recompute, 0, 0, -1});
    const auto copy = *graph.find({0, TaskKind::copy_backward, 0, 0, -1});
    const auto needed = graph.dependencies(recompute);
    EXPECT_NE(std::find(needed.begin(), needed.end(), copy), needed.end());
}

TEST(Replicas, SumTheirGradientsAtTheEndOfEachLane) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        const TaskGraph graph = make_schedule(schedule, {.num_partitions = 2, .num_micro_batches = 2, .replicas = 4});
        for (int lane = 0; lane < 2; ++lane) {
            EXPECT_EQ(graph.tasks()[graph.lane_order(LaneId{lane}).back()].key,
                      (TaskKey{0, TaskKind::all_reduce, lane, -1, -1}));
        }
    }
}

TEST(Schedules, RunEveryTaskOfEveryMicroBatchOnce) {
    for (const Schedule schedule : all_schedules()) {
        const bool interleaved = schedule == Schedule::interleaved_1f1b;
        PipelineShape shape{.num_partitions = 4, .num_micro_batches = 6, .checkpoint = Checkpoint::always};
        if (interleaved) {
            shape.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
        }
        const TaskGraph graph = make_schedule(schedule, shape);
        const auto count = [&](TaskKind kind) {
            return std::count_if(graph.tasks().begin(), graph.tasks().end(),
                                 [&](const Task& task) { return task.key.kind == kind; });
        };
        EXPECT_EQ(count(TaskKind::forward), 24) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::recompute), 24) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::backward), 24) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::copy_forward), 18) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::loss), needs_loss_inside(schedule) ? 6 : 1) << to_string(schedule);
    }
}

TEST(Schedules, AreReadBackFromTheirNames) {
    for (const Schedule schedule : all_schedules()) {
        EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
    }
    EXPECT_THAT([] { parse_schedule("zigzag"); }, ThrowsMessage<UsageError>(HasSubstr("gpipe, 1f1b, interleaved")));
    for (const Schedule schedule : all_schedules()) {
        EXPECT_EQ(is_for_comparison_only(schedule), !testing::Value(runnable_schedules(), testing::Contains(schedule)));
    }
    EXPECT_EQ(runnable_schedule_names(), "gpipe, 1f1b, interleaved or zero-bubble-h1");
}
}  // namespace
}  // namespace pipescope
