#include "schedule/schedules.h"

#include "base/error.h"
#include "schedule/placement.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;

/// "0 1 0' ..": micro-batches of one lane without losses and sums, with a mark for backward. With several partitions
/// per lane, the partition comes first.
std::string lane_micro_batches(const TaskGraph& graph, int lane) {
    std::string text;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        const TaskKey& key = graph.tasks()[task].key;
        if (key.kind == TaskKind::loss || key.kind == TaskKind::all_reduce) {
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
    EXPECT_THAT(thrown<UsageError>([&] { make_schedule(Schedule::interleaved_1f1b, one_each); }),
                HasSubstr("two or more partitions per lane"));
    EXPECT_THAT(thrown<UsageError>([&] { check_schedule(Schedule::interleaved_1f1b, one_each); }),
                HasSubstr("two or more partitions per lane"));
    EXPECT_THAT(thrown<UsageError>([] {
                    make_schedule(Schedule::interleaved_1f1b,
                                  {.num_partitions = 4,
                                   .num_micro_batches = 5,
                                   .placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}}});
                }),
                HasSubstr("use 4 or 6"));
}

// Compute tasks of torch.distributed.pipelining (PyTorch 2.11), ScheduleInterleaved1F1B and
// ScheduleInterleavedZeroBubble, for numbers of micro-batches that four lanes do not divide.
TEST(Interleaved, TakesGroupsAsTorchDoes) {
    const auto graph_of = [](const Schedule& schedule, int micro_batches) {
        return make_schedule(schedule, {.num_partitions = 8,
                                        .num_micro_batches = micro_batches,
                                        .checkpoint = Checkpoint::never,
                                        .placement = placement_in_turn(8, 4)});
    };
    for (const int micro_batches : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 20}) {
        EXPECT_TRUE(can_run(Schedule::interleaved_1f1b, 4, micro_batches)) << micro_batches;
        graph_of(Schedule::interleaved_1f1b, micro_batches);  // throws if tasks wait for each other
        graph_of(Schedule::interleaved_zero_bubble, micro_batches);
    }
    for (const int micro_batches : {9, 11, 13, 14, 17, 18, 19}) {
        EXPECT_FALSE(can_run(Schedule::interleaved_1f1b, 4, micro_batches)) << micro_batches;
    }
    EXPECT_EQ(lane_micro_batches(graph_of(Schedule::interleaved_1f1b, 3), 0),
              "0:0 0:1 0:2 4:0 4:1 4:2 4:0' 4:1' 4:2' 0:0' 0:1' 0:2'");
    EXPECT_EQ(lane_micro_batches(graph_of(Schedule::interleaved_1f1b, 10), 0),
              "0:0 0:1 0:2 0:3 0:4 4:0 4:1 4:2 4:3 4:4 0:5 0:6 4:0' 0:7 4:1' 0:8 4:2' 0:9 4:3' 4:5 4:4' 4:6 "
              "0:0' 4:7 0:1' 4:8 0:2' 4:9 0:3' 0:4' 4:5' 4:6' 4:7' 4:8' 4:9' 0:5' 0:6' 0:7' 0:8' 0:9'");
    EXPECT_EQ(lane_micro_batches(graph_of(Schedule::interleaved_1f1b, 10), 3),
              "3:0 3:1 3:2 3:3 3:4 7:0 7:0' 7:1 7:1' 7:2 7:2' 7:3 7:3' 7:4 7:4' 3:5 3:0' 3:6 3:1' 3:7 3:2' 3:8 "
              "3:3' 3:9 3:4' 7:5 7:5' 7:6 7:6' 7:7 7:7' 7:8 7:8' 7:9 7:9' 3:5' 3:6' 3:7' 3:8' 3:9'");
    EXPECT_EQ(lane_micro_batches(graph_of(Schedule::interleaved_zero_bubble, 3), 3),
              "3:0 3:1 3:2 7:0 7:0' 7:1 7:1' 7:2 7:2' 3:0' 7:0w 3:1' 7:1w 3:2' 7:2w 3:0w 3:1w 3:2w");
    EXPECT_EQ(lane_micro_batches(graph_of(Schedule::interleaved_zero_bubble, 10), 0),
              "0:0 0:1 0:2 0:3 0:4 4:0 4:1 4:2 4:3 4:0' 4:0w 4:4 4:1' 4:1w 0:5 4:2' 4:2w 0:6 4:3' 4:3w 0:7 "
              "4:4' 4:4w 0:8 0:0' 0:0w 0:9 0:1' 0:1w 4:5 0:2' 0:2w 4:6 0:3' 0:3w 4:7 0:4' 0:4w 4:8 4:5' 4:5w "
              "4:9 4:6' 4:6w 4:7' 4:7w 4:8' 4:8w 4:9' 4:9w 0:5' 0:5w 0:6' 0:6w 0:7' 0:7w 0:8' 0:8w 0:9' 0:9w");
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

/// Four partitions, where the schedule wants them.
PipelineShape four_partitions(const Schedule& schedule, int micro_batches, Checkpoint mode) {
    PipelineShape shape{.num_partitions = 4, .num_micro_batches = micro_batches, .checkpoint = mode};
    shape.placement = placement_of(schedule, 4, 2);
    return shape;
}

TEST(Schedules, RunEveryTaskOfEveryMicroBatchOnce) {
    for (const Schedule& schedule : all_schedules()) {
        const PipelineShape shape = four_partitions(schedule, 8, Checkpoint::always);
        const TaskGraph graph = make_schedule(schedule, shape);
        const auto count = [&](TaskKind kind) {
            return std::count_if(graph.tasks().begin(), graph.tasks().end(),
                                 [&](const Task& task) { return task.key.kind == kind; });
        };
        const bool in_v = shape.num_lanes() == 2 && shape.lane_of(PartitionId{2}) == LaneId{1};
        EXPECT_EQ(count(TaskKind::forward), 32) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::recompute), 32) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::backward), 32) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::backward_weight), splits_backward(schedule) ? 32 : 0) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::copy_forward), in_v ? 16 : 24) << to_string(schedule);
        EXPECT_EQ(count(TaskKind::loss), needs_loss_inside(schedule) ? 8 : 1) << to_string(schedule);
    }
}

// Every number of lanes and micro-batches either runs, or can_run() knows that it does not.
TEST(Schedules, RunWhateverTheySayTheyRun) {
    int ran = 0;
    for (const Schedule& schedule : all_schedules()) {
        for (int lanes = 1; lanes <= 9; ++lanes) {
            const std::size_t partitions = usual_partitions(schedule, static_cast<std::size_t>(lanes));
            for (int m = 1; m <= 20; ++m) {
                PipelineShape shape{.num_partitions = static_cast<int>(partitions), .num_micro_batches = m};
                shape.placement = placement_of(schedule, partitions, static_cast<std::size_t>(lanes));
                if (can_run(schedule, lanes, m)) {
                    EXPECT_EQ(make_schedule(schedule, shape).num_lanes(), lanes) << to_string(schedule) << m;
                    ++ran;
                } else {
                    EXPECT_NE(needs_of(schedule), "") << to_string(schedule) << lanes << " " << m;
                }
            }
        }
    }
    EXPECT_GT(ran, 1500);
}

/// The most activations a lane holds, from a forward to the last half of its backward, in those of all its layers.
double most_held(const TaskGraph& graph, int lane) {
    const bool splits = std::any_of(graph.tasks().begin(), graph.tasks().end(),
                                    [](const Task& task) { return task.key.kind == TaskKind::backward_weight; });
    int held = 0;
    int most = 0;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        const TaskKind kind = graph.tasks()[task].key.kind;
        const TaskKind last = splits ? TaskKind::backward_weight : TaskKind::backward;
        held += kind == TaskKind::forward ? 1 : kind == last ? -1 : 0;
        most = std::max(most, held);
    }
    return static_cast<double>(most) * graph.num_lanes() / graph.shape().num_partitions;
}

TaskGraph on_lanes(const Schedule& schedule, int lanes, int micro_batches) {
    const std::size_t partitions = usual_partitions(schedule, static_cast<std::size_t>(lanes));
    PipelineShape shape{.num_partitions = static_cast<int>(partitions),
                        .num_micro_batches = micro_batches,
                        .checkpoint = Checkpoint::never};
    shape.placement = placement_of(schedule, partitions, static_cast<std::size_t>(lanes));
    return make_schedule(schedule, shape);
}

double most_held(const Schedule& schedule, int lanes, int micro_batches) {
    const TaskGraph graph = on_lanes(schedule, lanes, micro_batches);
    double most = 0;
    for (int lane = 0; lane < lanes; ++lane) {
        most = std::max(most, most_held(graph, lane));
    }
    return most;
}

// Published: p for 1F1B, ZB-H1 and ZB-V (arXiv 2401.10241, section 6), 2p - 1 for ZB-H2 (section 3.2), about p / 2 and
// p / 3 for V-Half and V-Min (arXiv 2405.15362, section 3).
TEST(Schedules, HoldTheActivationsOfTheirPapers) {
    for (const int p : {2, 3, 4, 6, 8, 9, 16, 31}) {
        const int m = 4 * p;
        EXPECT_EQ(most_held(Schedule::one_f_one_b, p, m), p);
        EXPECT_LE(most_held(Schedule::zero_bubble_h1, p, m), p + 1) << "until the end of the weights";
        EXPECT_EQ(most_held(Schedule::zero_bubble_2p, p, m), 2 * p - 1);
        EXPECT_EQ(most_held(Schedule::zero_bubble_v, p, m), p);
        if (p % 2 == 0) {  // DeepSeek's repository DualPipe: PP + 1
            EXPECT_EQ(most_held(Schedule::dualpipe, p, m), p + 1);
        }
        EXPECT_LE(most_held(Schedule::v_half, p, m), (p + 3) / 2.0 + 0.5) << p;
        EXPECT_LE(most_held(Schedule::v_min, p, m), (p + 4) / 3.0 + 0.5) << p;
        EXPECT_EQ(most_held(Schedule::looped_bfs, p, m), m);
    }
}

TEST(Schedules, HoldNoMoreMicroBatchesThanIsKnownOfThem) {
    for (const Schedule& schedule : all_schedules()) {
        for (const int lanes : {1, 2, 3, 4, 7}) {
            for (const int m : {1, 2, 4, 8, 21}) {
                if (!can_run(schedule, lanes, m)) {
                    continue;
                }
                const std::size_t partitions = usual_partitions(schedule, static_cast<std::size_t>(lanes));
                const TaskGraph graph = on_lanes(schedule, lanes, m);
                for (int lane = 0; lane < lanes; ++lane) {
                    const auto held = held_micro_batches(schedule, LaneId{lane}, lanes, partitions, m);
                    const int live = most_live(graph, lane);
                    EXPECT_LE(live, held.most) << to_string(schedule) << lanes << " " << m << " " << lane;
                    EXPECT_GE(live, held.least) << to_string(schedule) << lanes << " " << m << " " << lane;
                    EXPECT_TRUE(!held.is_known || held.least == held.most) << to_string(schedule);
                }
            }
        }
    }
    EXPECT_TRUE(held_micro_batches(Schedule::one_f_one_b, LaneId{1}, 4, 4, 8).is_known);
    EXPECT_EQ(held_micro_batches(Schedule::interleaved_1f1b, LaneId{0}, 4, 8, 8).most, 2 * 3 + 4 + 1);
    EXPECT_EQ(held_micro_batches(Schedule::looped_bfs, LaneId{0}, 4, 8, 8).most, 16);
}

TEST(Schedules, HaveOneRowOfTraits) {
    for (const Schedule& each : all_schedules()) {
        EXPECT_EQ(parse_schedule(to_string(each)), each);
        EXPECT_EQ(needs_loss_inside(each), each != Schedule::gpipe) << to_string(each);
        EXPECT_EQ(is_synchronous(each), each != Schedule::pipedream) << to_string(each);
        EXPECT_EQ(runs_one_lane_at_a_time(each), each == Schedule::model_parallel) << to_string(each);
    }
    EXPECT_TRUE(splits_backward(Schedule::automatic)) << "since it may";
}

/// Slots of the step in which each task takes one.
int slots(const Schedule& schedule, int lanes, int micro_batches) {
    return static_cast<int>(schedule_table(on_lanes(schedule, lanes, micro_batches)).rows.front().size());
}

// Of a lane that works 6 slots per micro-batch, with tasks of half a lane's layers. 1F1B idles for 6 (p - 1).
TEST(Schedules, IdleAsTheirPapersSay) {
    for (const int p : {2, 4, 8, 16}) {
        const int m = 4 * p;
        EXPECT_EQ(slots(Schedule::zero_bubble_v, p, m) - 6 * m, p - 1) << "none but the ramp";
        EXPECT_LE(slots(Schedule::v_half, p, m) - 6 * m, 3 * (p - 1)) << "half of 1F1B";
        EXPECT_LE(slots(Schedule::v_min, p, m) - 6 * m, 4 * p) << "two thirds of 1F1B, and a little";
    }
    // The figures of the authors' own heuristic.
    EXPECT_EQ(slots(Schedule::v_half, 8, 24) - 6 * 24, 17);
    EXPECT_EQ(slots(Schedule::v_half, 16, 48) - 6 * 48, 41);
    EXPECT_EQ(slots(Schedule::v_min, 6, 24) - 6 * 24, 17);
}

// F = B = W and no copies: both ramps are those of a single micro-batch, and the lane's own span has no gap.
TEST(ZeroBubble2p, LeavesNoGapInALane) {
    const ScheduleTable table = schedule_table(on_lanes(Schedule::zero_bubble_2p, 5, 12));
    for (const auto& row : table.rows) {
        const auto is_idle = [](const ScheduleTable::Cell& cell) { return cell.empty(); };
        const auto first = std::find_if_not(row.begin(), row.end(), is_idle);
        const auto last = std::find_if_not(row.rbegin(), row.rend(), is_idle).base();
        EXPECT_EQ(std::count_if(first, last, is_idle), 0);
        EXPECT_EQ(last - first, 36);
    }
    EXPECT_EQ(lane_micro_batches(on_lanes(Schedule::zero_bubble_2p, 3, 6), 1),
              "0 1 2 0' 3 1' 4 2' 0w 5 3' 1w 4' 2w 5' 3w 4w 5w");
}

TEST(LoopedBfs, RunsAllMicroBatchesThroughEachPartitionInTurn) {
    const TaskGraph graph = on_lanes(Schedule::looped_bfs, 2, 2);
    EXPECT_EQ(lane_micro_batches(graph, 0), "0:0 0:1 2:0 2:1 2:1' 2:0' 0:1' 0:0'");
    EXPECT_EQ(lane_micro_batches(graph, 1), "1:0 1:1 3:0 3:1 3:1' 3:0' 1:1' 1:0'");
}

TEST(VSchedules, RefuseShapesThatAreNoV) {
    const PipelineShape in_turn{
        .num_partitions = 4, .num_micro_batches = 4, .placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}}};
    for (const Schedule schedule : {Schedule::zero_bubble_v, Schedule::dualpipe_v, Schedule::v_half, Schedule::v_min}) {
        EXPECT_THAT(thrown<UsageError>([&] { make_schedule(schedule, in_turn); }),
                    testing::AllOf(HasSubstr("partition 2"), HasSubstr("such as 0,1,1,0")));
        EXPECT_THAT(thrown<UsageError>([&] { make_schedule(schedule, {.num_partitions = 4, .num_micro_batches = 4}); }),
                    HasSubstr("needs two partitions per lane"));
    }
    EXPECT_THAT(thrown<UsageError>([] { on_lanes(Schedule::dualpipe_v, 2, 3); }),
                HasSubstr("needs at least 4 micro-batches"));
}

// As in the picture of dualpipe.cpp. The number is the micro-batch.
TEST(DualPipe, RunsTheLanesOfBothEndsAlike) {
    const TaskGraph graph = on_lanes(Schedule::dualpipe, 4, 8);
    EXPECT_EQ(lane_micro_batches(graph, 0), "0 1 2 4 4' 4w 5 3 5' 5w 6 0' 0w 6' 6w 7 1' 1w 7' 7w 2' 2w 3' 3w");
    EXPECT_EQ(lane_micro_batches(graph, 1), "0 4 1 5 2 4' 4w 6 0' 0w 3 5' 5w 7 1' 1w 6' 6w 2' 2w 7' 3' 7w 3w");
    const auto order_of = [&](int lane, int shift) {
        std::vector<TaskKey> keys;
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            TaskKey key = graph.tasks()[task].key;
            if (key.kind != TaskKind::all_reduce) {
                key.micro_batch = (key.micro_batch + shift) % 8;
                keys.push_back(key);
            }
        }
        return keys;
    };
    EXPECT_EQ(order_of(3, 4), order_of(0, 0));
    EXPECT_EQ(order_of(2, 4), order_of(1, 0));
}

TEST(DualPipe, SendsHalfOfTheMicroBatchesEachWayThroughEveryPartitionInOrder) {
    for (const int lanes : {2, 4, 8, 16}) {
        for (const int m : {2 * lanes, 2 * lanes + 6}) {
            const TaskGraph graph = on_lanes(Schedule::dualpipe, lanes, m);
            for (int i = 0; i < m; ++i) {
                for (int j = 0; j < lanes; ++j) {
                    const Task& forward = graph.tasks()[graph.find({0, TaskKind::forward, j, i, -1}).value()];
                    EXPECT_EQ(forward.lane, LaneId{i < m / 2 ? j : lanes - 1 - j});
                    if (j + 1 < lanes) {
                        const Task& copy = graph.tasks()[graph.find({0, TaskKind::copy_forward, j, i, -1}).value()];
                        EXPECT_EQ(copy.lane, forward.lane);
                        EXPECT_EQ(copy.receiver, LaneId{forward.lane.value() + (i < m / 2 ? 1 : -1)});
                    }
                }
                const Task& loss = graph.tasks()[graph.find({0, TaskKind::loss, lanes - 1, i, -1}).value()];
                EXPECT_EQ(loss.lane, LaneId{i < m / 2 ? lanes - 1 : 0});
            }
        }
    }
}

TEST(DualPipe, SumsTheGradientsOfBothCopiesOnceBothAreDone) {
    const TaskGraph graph = on_lanes(Schedule::dualpipe, 4, 8);
    for (int j = 0; j < 4; ++j) {
        std::vector<LaneId> lanes;
        for (const int i : {-1, 4}) {
            const TaskIndex sum = graph.find({0, TaskKind::all_reduce, j, i, -1}).value();
            lanes.push_back(graph.tasks()[sum].lane);
            std::vector<LaneId> waits_for;
            for (const TaskIndex needed : graph.dependencies(sum)) {
                EXPECT_EQ(graph.tasks()[needed].key.kind, TaskKind::backward_weight);
                EXPECT_EQ(graph.tasks()[needed].key.partition, j);
                waits_for.push_back(graph.tasks()[needed].lane);
            }
            EXPECT_THAT(waits_for, testing::UnorderedElementsAre(LaneId{j}, LaneId{3 - j}));
        }
        EXPECT_EQ(lanes, (std::vector{LaneId{j}, LaneId{3 - j}}));
    }
}

TEST(DualPipe, NeedsTwoEvenHalves) {
    EXPECT_THAT(thrown<UsageError>([] { on_lanes(Schedule::dualpipe, 3, 8); }),
                testing::AllOf(HasSubstr("an even number of lanes"), HasSubstr("has 3 lanes; use 4, or another")));
    EXPECT_THAT(thrown<UsageError>([] { on_lanes(Schedule::dualpipe, 4, 9); }),
                testing::AllOf(HasSubstr("an even number of micro-batches"), HasSubstr("9 are odd; use 8 or 10")));
    EXPECT_THAT(thrown<UsageError>([] { on_lanes(Schedule::dualpipe, 4, 6); }),
                HasSubstr("needs at least 8 micro-batches, two for each lane; 6 are too few"));
    EXPECT_THAT(thrown<UsageError>([] {
                    make_schedule(Schedule::dualpipe,
                                  {.num_partitions = 8, .num_micro_batches = 8, .placement = placement_in_v(4)});
                }),
                testing::AllOf(HasSubstr("8 partitions on 4 lanes"), HasSubstr("use 4 partitions")));
    EXPECT_THAT(thrown<UsageError>([] {
                    make_schedule(Schedule::dualpipe,
                                  {.num_partitions = 2, .num_micro_batches = 4, .placement = {LaneId{1}, LaneId{0}}});
                }),
                HasSubstr("such as 0,1"));
    EXPECT_THAT(thrown<UsageError>([] {
                    make_schedule(
                        Schedule::dualpipe,
                        {.num_partitions = 4, .num_micro_batches = 8, .shared = {{PartitionId{0}, {PartitionId{1}}}}});
                }),
                testing::AllOf(HasSubstr("partitions 0 and 1 share parameters"), HasSubstr("such as dualpipe-v")));
    for (const int m : {7, 8, 9, 10}) {
        EXPECT_EQ(can_run(Schedule::dualpipe, 4, m), m == 8 || m == 10) << m;
        EXPECT_FALSE(can_run(Schedule::dualpipe, 3, m)) << m;
    }
    EXPECT_EQ(nearest_runnable(Schedule::dualpipe), Schedule(Schedule::dualpipe_v));
    EXPECT_EQ(nearest_runnable(Schedule::dualpipe_v), std::nullopt);
}

// A pair is one task of the clock: it waits for the inputs of both, and both outputs leave at its end.
TEST(JointTasks, WaitForAllInputsAndSendAllOutputsAtTheEnd) {
    PipelineShape shape{.num_partitions = 4, .num_micro_batches = 8, .checkpoint = Checkpoint::never};
    EXPECT_EQ(make_schedule(Schedule::dualpipe, shape).joints().size(), 0U);
    shape.joins_pairs = true;
    const TaskGraph graph = make_schedule(Schedule::dualpipe, shape);
    // The pair (3 5') of lane 0 and its halves: a forward of partition 0, and both halves of a backward of partition 3.
    const TaskIndex forward = graph.find({0, TaskKind::forward, 0, 3, -1}).value();
    const TaskIndex backward = graph.find({0, TaskKind::backward, 3, 5, -1}).value();
    const TaskIndex weight = graph.find({0, TaskKind::backward_weight, 3, 5, -1}).value();
    EXPECT_THAT(graph.dependencies(forward), testing::ElementsAre(graph.find({0, TaskKind::loss, 3, 5, -1}).value()));
    const auto producer = [&](TaskKind kind, int partition, int micro_batch) {
        return graph.dependencies(graph.find({0, kind, partition, micro_batch, -1}).value()).front();
    };
    EXPECT_EQ(producer(TaskKind::copy_forward, 0, 3), weight);
    EXPECT_EQ(producer(TaskKind::copy_backward, 2, 5), weight);
    bool found = false;
    for (std::size_t k = 0; k < graph.joints().size(); ++k) {
        const std::span<const TaskIndex> tasks = graph.joints().at(k);
        found = found || std::vector(tasks.begin(), tasks.end()) == std::vector{forward, backward, weight};
    }
    EXPECT_TRUE(found);
    EXPECT_EQ(producer(TaskKind::copy_backward, 2, 4), graph.find({0, TaskKind::backward, 3, 4, -1}).value())
        << "of a split backward, gradients leave after the first half";
    EXPECT_EQ(make_schedule(Schedule::one_f_one_b, shape).joints().size(), 0U) << "it has no pairs";
}

TEST(Schedules, AreReadBackFromTheirNames) {
    for (const Schedule& schedule : all_schedules()) {
        EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
    }
    EXPECT_THAT(thrown<UsageError>([] { parse_schedule("zigzag"); }), HasSubstr("gpipe, 1f1b, interleaved"));
    for (const Schedule& schedule : all_schedules()) {
        EXPECT_EQ(is_for_comparison_only(schedule), !testing::Value(runnable_schedules(), testing::Contains(schedule)));
    }
    EXPECT_EQ(
        runnable_schedule_names(),
        "gpipe, 1f1b, interleaved, looped-bfs, zero-bubble-h1, zero-bubble-2p, interleaved-zero-bubble, zero-bubble-v, "
        "dualpipe-v, v-half, v-min or model-parallel");
}

// Its columns are no common slots: a lane's cells follow each other.
TEST(Schedules, LeaveOutTheCommunicationOfTorchsDefaultDump) {
    const Schedule schedule =
        Schedule::from_csv("default.csv",
                           "0UNSHARD,0F0,0SEND_F0,0F1,\"0SEND_F1\",0RECV_B0,0B0,0RECV_B1,0B1,"
                           "0RESHARD,0REDUCE_GRAD\r\n"
                           "1UNSHARD,1RECV_F0,1F0,(1RECV_F1;1SEND_B0)BATCH_P2P,1B0,1F1,1B1,1SEND_B1\r\n");
    EXPECT_EQ(schedule.file()->communication_cells, 10U);
    EXPECT_EQ(schedule.file()->shape.num_micro_batches, 2);
    EXPECT_EQ(to_csv(schedule.file()->table), "0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n");
    EXPECT_EQ(Schedule::from_csv("default.csv", to_csv(schedule.file()->table)), schedule);
    for (const char* cell : {"0UNSHARDS", "SEND_F0", "0SEND_F", "0SEND_G1", "0SEND_F1x", "(0SEND_F0;1F0)BATCH_P2P",
                             "(0SEND_F0)BATCH_P2P", "0SEND_F0;1RECV_F0"}) {
        EXPECT_THAT(thrown<Error>([&] { Schedule::from_csv("a.csv", std::string("0F0,0B0,") + cell + "\n"); }),
                    HasSubstr("row 1, column 3 is '"))
            << cell;
    }
}

TEST(Schedules, HideWorkOnlyWhereTheyMayPairTasks) {
    EXPECT_EQ(least_work_share(Schedule::dualpipe, 1), 0.5);
    EXPECT_EQ(least_work_share(Schedule::dualpipe_v, 0.5), 0.75);
    EXPECT_EQ(least_work_share(Schedule::automatic, 0.5), 0.75);  // which may choose dualpipe-v
    EXPECT_EQ(least_work_share(Schedule::one_f_one_b, 1), 1);
}
}  // namespace
}  // namespace pipescope
