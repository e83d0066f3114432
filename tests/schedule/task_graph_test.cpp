#include "schedule/task_graph.h"

#include "base/error.h"
#include "schedule/schedules.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<std::string> dependencies_of(const TaskGraph& graph, const TaskKey& key) {
    std::vector<std::string> names;
    for (const TaskIndex task : graph.dependencies(graph.find(key).value())) {
        names.push_back(to_string(TaskKey{-1, graph.tasks()[task].key.kind, graph.tasks()[task].key.partition,
                                          graph.tasks()[task].key.micro_batch, graph.tasks()[task].key.skip}));
    }
    return names;
}

TEST(TaskGraph, LetsDataFlowThroughCopiesBothWays) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2});
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::forward, 1, 0, -1}), ElementsAre("copy_forward (0, 0)"));
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::copy_forward, 0, 0, -1}), ElementsAre("forward (0, 0)"));
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::copy_backward, 0, 0, -1}), ElementsAre("backward (0, 1)"));
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::backward, 0, 0, -1}),
                UnorderedElementsAre("recompute (0, 0)", "copy_backward (0, 0)"));
}

TEST(TaskGraph, HoldsTheBackwardPhaseOfEveryLaneBehindTheLoss) {
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2, .checkpoint = Checkpoint::always});
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::recompute, 0, 1, -1}),
                UnorderedElementsAre("forward (1, 0)", "loss of partition 1"));
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::loss, 1, -1, -1}),
                UnorderedElementsAre("forward (0, 1)", "forward (1, 1)"));
}

TEST(TaskGraph, SendsASkipStraightToWhereItIsPopped) {
    const TaskGraph graph = make_schedule(
        Schedule::gpipe,
        {.num_partitions = 3, .num_micro_batches = 1, .skips = {SkipRoute{PartitionId{0}, {PartitionId{2}}}}});
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::forward, 2, 0, -1}),
                UnorderedElementsAre("copy_forward (0, 1)", "skip_forward (0, 0) skip 0"));
    EXPECT_THAT(dependencies_of(graph, {0, TaskKind::backward, 0, 0, -1}),
                UnorderedElementsAre("copy_backward (0, 0)", "skip_backward (0, 0) skip 0", "loss of partition 2"));
    const auto skip = graph.tasks()[*graph.find({0, TaskKind::skip_forward, 0, 0, 0})];
    EXPECT_EQ(skip.lane, LaneId{0});
    EXPECT_EQ(skip.receiver, LaneId{2});
}

TEST(TaskGraph, ListsTasksBehindWhatTheyWaitFor) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 4, .num_micro_batches = 5});
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {
        for (const TaskIndex needed : graph.dependencies(task)) {
            EXPECT_LT(needed, task);
        }
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        const auto order = graph.lane_order(LaneId{lane});
        EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    }
}

TEST(TaskGraph, HoldsTheMostMicroBatches) {
    // Work that grows with their square would be 4 * 10^9 steps.
    constexpr std::size_t kMost = kMostMicroBatches;
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        const TaskGraph graph = make_schedule(schedule, {.num_partitions = 2, .num_micro_batches = kMostMicroBatches});
        const bool is_one = schedule == Schedule::gpipe;
        const auto loss = graph.find({0, TaskKind::loss, 1, is_one ? -1 : kMostMicroBatches - 1, -1});
        ASSERT_TRUE(loss);
        EXPECT_EQ(graph.dependencies(*loss).size(), is_one ? kMost : 1);
    }
}

TEST(TaskGraph, RefusesProgramsThatWaitForEachOther) {
    const std::vector<LaneProgram> backwards = {{{0, TaskKind::backward, 0, 0, -1}, {0, TaskKind::forward, 0, 0, -1}}};
    EXPECT_THROW(TaskGraph({.num_partitions = 1, .num_micro_batches = 1}, backwards), Error);
}

TEST(PipelineShape, RefusesWhatNoScheduleCanRun) {
    EXPECT_THROW(make_schedule(Schedule::gpipe, {.num_partitions = 0}), UsageError);
    EXPECT_THROW(make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 0}), UsageError);
    EXPECT_THROW(make_schedule(Schedule::gpipe, {.num_partitions = 2, .placement = {LaneId{0}}}), UsageError);
    EXPECT_THAT(thrown<UsageError>([] {
                    make_schedule(Schedule::gpipe, {.num_partitions = 2, .placement = {LaneId{0}, LaneId{2}}});
                }),
                testing::HasSubstr("placement[1] is 2"));
    EXPECT_THROW(
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .skips = {SkipRoute{PartitionId{1}, {PartitionId{0}}}}}),
        UsageError);
}

TEST(PipelineShape, AccountsACopyToTheSendingLane) {
    const PipelineShape shape{.num_partitions = 3, .num_micro_batches = 1};
    EXPECT_EQ(shape.lane_of(TaskKey{0, TaskKind::copy_forward, 0, 0, -1}), LaneId{0});
    EXPECT_EQ(shape.lane_of(TaskKey{0, TaskKind::copy_backward, 0, 0, -1}), LaneId{1});
    EXPECT_EQ(shape.lane_of(TaskKey{0, TaskKind::loss, -1, -1, -1}), LaneId{2});
    EXPECT_FALSE(shape.lane_of(TaskKey{0, TaskKind::optimizer, -1, -1, -1}));
}
}  // namespace
}  // namespace pipescope
