#include "schedule/shared_routes.h"

#include "base/error.h"
#include "schedule/schedule_table.h"
#include "schedule/schedules.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<LayerId> layers(const std::vector<int>& numbers) {
    std::vector<LayerId> all;
    for (const int each : numbers) {
        all.emplace_back(each);
    }
    return all;
}

std::vector<LaneId> lanes(const std::vector<int>& numbers) {
    std::vector<LaneId> all;
    for (const int each : numbers) {
        all.emplace_back(each);
    }
    return all;
}

SharedRoute route(int from, const std::vector<int>& users, bool trains = true) {
    SharedRoute made{PartitionId{from}, {}, trains};
    for (const int each : users) {
        made.users.emplace_back(each);
    }
    return made;
}

std::string order_of(const TaskGraph& graph, int lane) {
    std::string text;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        const TaskKey& key = graph.tasks()[task].key;
        text += (text.empty() ? "" : " ") + std::string(1, letter_of(key.kind).value()) +
                (key.micro_batch < 0 ? "" : std::to_string(key.micro_batch));
    }
    return text;
}

const Task& task_of(const TaskGraph& graph, TaskKind kind, int partition, int micro_batch, int skip) {
    return graph.tasks()[graph.find({0, kind, partition, micro_batch, skip}).value()];
}

std::vector<std::string> needs_of(const TaskGraph& graph, const TaskKey& key) {
    std::vector<std::string> names;
    for (const TaskIndex task : graph.dependencies(graph.find(key).value())) {
        TaskKey needed = graph.tasks()[task].key;
        needed.step = -1;
        names.push_back(to_string(needed));
    }
    return names;
}

TEST(SharedRoutes, GoFromTheHolderToEachOtherLaneOnce) {
    const Balance balance({1, 1, 2, 1});
    EXPECT_THAT(shared_routes({{layers({0, 4})}}, balance, {}), ElementsAre(route(0, {3})));
    // Layers 2 and 3 are of one partition.
    EXPECT_THAT(shared_routes({{layers({1, 2, 3, 4})}}, balance, {}), ElementsAre(route(1, {2}), route(1, {3})));
    // Two groups with the same ends go together; the route trains if one of them does.
    EXPECT_THAT(shared_routes({{layers({0, 4}), false}, {layers({0, 4}), true}}, balance, {}),
                ElementsAre(route(0, {3})));
    EXPECT_THAT(shared_routes({{layers({0, 4}), false}}, balance, {}), ElementsAre(route(0, {3}, false)));
}

TEST(SharedRoutes, AreNotNeededOnOneLane) {
    const Balance balance({1, 1, 2, 1});
    EXPECT_THAT(shared_routes({{layers({2, 3})}}, balance, {}), IsEmpty());
    // The first and the last partition are on one lane, as in a V. Layers 2 and 3 use the lane's other neighbour.
    EXPECT_THAT(shared_routes({{layers({0, 4})}}, balance, lanes({0, 1, 1, 0})), IsEmpty());
    EXPECT_THAT(shared_routes({{layers({0, 1, 3})}}, balance, lanes({0, 1, 1, 0})), ElementsAre(route(0, {1, 2})));
}

TEST(SharedGraph, SendsTheWeightsOnceAndTheGradientsBackOnce) {
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 3, .shared = {route(0, {1})}});
    const Task& weights = task_of(graph, TaskKind::shared_forward, 0, -1, 0);
    EXPECT_EQ(weights.lane, LaneId{0});
    EXPECT_EQ(weights.receiver, LaneId{1});
    const Task& gradients = task_of(graph, TaskKind::shared_backward, 0, -1, 0);
    EXPECT_EQ(gradients.lane, LaneId{1});
    EXPECT_EQ(gradients.receiver, LaneId{0});
    EXPECT_EQ(graph.shape().lane_of(gradients.key), LaneId{1});
    EXPECT_THAT(needs_of(graph, weights.key), ElementsAre("forward (0, 0)"));
    EXPECT_THAT(needs_of(graph, {0, TaskKind::forward, 1, 0, -1}),
                ElementsAre("copy_forward (0, 0)", "shared_forward of partition 0 route 0"));
    EXPECT_THAT(needs_of(graph, {0, TaskKind::forward, 1, 1, -1}), ElementsAre("copy_forward (1, 0)"));
    EXPECT_THAT(needs_of(graph, gradients.key), ElementsAre("backward (0, 1)"));  // gpipe's last one
    EXPECT_THAT(needs_of(graph, {0, TaskKind::shared_sum, 0, -1, 0}),
                ElementsAre("shared_backward of partition 0 route 0"));
    EXPECT_EQ(order_of(graph, 0), "F0 F1 F2 B2 R1 B1 R0 B0 S");
    EXPECT_EQ(order_of(graph, 1), "F0 F1 F2 L B2 R1 B1 R0 B0");
}

TEST(SharedGraph, SumsBeforeReplicasCombineTheirGradients) {
    const TaskGraph graph = make_schedule(
        Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 1, .shared = {route(0, {1})}, .replicas = 2});
    EXPECT_EQ(order_of(graph, 0), "F0 B0 S A");
    EXPECT_EQ(order_of(graph, 1), "F0 L B0 A");
}

TEST(SharedGraph, SendsNoGradientsOfFrozenParameters) {
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 1, .shared = {route(0, {1}, false)}});
    EXPECT_TRUE(graph.find({0, TaskKind::shared_forward, 0, -1, 0}));
    EXPECT_FALSE(graph.find({0, TaskKind::shared_backward, 0, -1, 0}));
    EXPECT_FALSE(graph.find({0, TaskKind::shared_sum, 0, -1, 0}));
}

/// With groups of the first partition of each pair, in all schedules and all placements that they have.
TEST(SharedGraph, EndsInEverySchedule) {
    for (const Schedule& schedule : all_schedules()) {
        for (const int lanes_wanted : {2, 3, 4}) {
            const int micro_batches = 2 * lanes_wanted;
            if (!is_synchronous(schedule) || is_bidirectional(schedule) ||
                !can_run(schedule, lanes_wanted, micro_batches)) {
                continue;
            }
            const auto num_lanes = static_cast<std::size_t>(lanes_wanted);
            const std::size_t partitions = usual_partitions(schedule, num_lanes);
            PipelineShape shape{.num_partitions = static_cast<int>(partitions),
                                .num_micro_batches = micro_batches,
                                .placement = placement_of(schedule, partitions, num_lanes)};
            const Balance balance(std::vector<std::int64_t>(partitions, 1));
            for (int first = 0; first < shape.num_partitions; ++first) {
                std::vector<SharedLayers> groups;
                for (int last = first + 1; last < shape.num_partitions; ++last) {
                    groups.push_back({layers({first, last})});
                }
                shape.shared = shared_routes(groups, balance, shape.placement);
                const TaskGraph graph = make_schedule(schedule, shape);
                for (std::size_t k = 0; k < shape.shared.size(); ++k) {
                    EXPECT_TRUE(graph.find({0, TaskKind::shared_sum, first, -1, static_cast<int>(k)}))
                        << to_string(schedule);
                }
            }
        }
    }
}

TEST(SharedGraph, NeedsNoCellsInATable) {
    const PipelineShape shape{
        .num_partitions = 2, .num_micro_batches = 3, .checkpoint = Checkpoint::always, .shared = {route(0, {1})}};
    const TaskGraph graph = make_schedule(Schedule::one_f_one_b, shape);
    const std::string csv = to_csv(schedule_table(graph));
    EXPECT_THAT(csv, testing::Not(HasSubstr("S")));
    const TaskGraph again = make_schedule(Schedule::from_csv("own.csv", csv), shape);
    EXPECT_EQ(order_of(again, 0), order_of(graph, 0));
    EXPECT_EQ(order_of(again, 0).back(), 'S');
}

TEST(SharedGraph, RefusesRoutesOfNoUse) {
    const auto check = [](const SharedRoute& of, const std::vector<int>& placement) {
        return thrown<UsageError>([&] {
            PipelineShape{.num_partitions = 3, .num_micro_batches = 1, .placement = lanes(placement), .shared = {of}}
                .check();
        });
    };
    EXPECT_THAT(check(route(1, {0}), {}), HasSubstr("the first partition that uses them holds them"));
    EXPECT_THAT(check(route(0, {}), {}), HasSubstr("0 users"));
    EXPECT_THAT(check(route(0, {1, 2}), {}), HasSubstr("make one for each lane"));
    EXPECT_THAT(check(route(0, {2}), {0, 1, 0}), HasSubstr("partition 2 on lane 0"));
}

TEST(SharedGraph, RefusesStaggeredUpdates) {
    const TaskGraph graph =
        make_schedule(Schedule::one_f_one_b, {.num_partitions = 2, .num_micro_batches = 2, .shared = {route(0, {1})}});
    EXPECT_THAT(thrown<UsageError>([&] { consecutive_steps(graph, 2); }), HasSubstr("lanes share parameters"));
}
}  // namespace
}  // namespace pipescope
