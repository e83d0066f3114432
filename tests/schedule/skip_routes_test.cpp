#include "schedule/skip_routes.h"

#include "base/error.h"
#include "schedule/schedules.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

SkipRoute way(int from, const std::vector<int>& to) {
    SkipRoute made{PartitionId{from}, {}};
    for (const int each : to) {
        made.to.emplace_back(each);
    }
    return made;
}
const std::vector<LaneId> kWay = {LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}};

std::vector<std::string> awaited_by(const TaskGraph& graph, const TaskKey& key) {
    std::vector<std::string> names;
    for (const TaskIndex task : graph.dependencies(graph.find(key).value())) {
        TaskKey needed = graph.tasks()[task].key;
        needed.step = -1;
        names.push_back(to_string(needed));
    }
    return names;
}
std::size_t number_of(const TaskGraph& graph, TaskKind kind) {
    std::size_t found = 0;
    for (const Task& task : graph.tasks()) {
        found += task.key.kind == kind ? 1 : 0;
    }
    return found;
}

TEST(SkipRoutes, GoOnceToEachLaneThatPops) {
    const std::vector<SkipLayers> skips = {{LayerId{0}, {LayerId{1}, LayerId{2}, LayerId{5}}},
                                           {LayerId{1}, {LayerId{3}}},
                                           {LayerId{2}, {LayerId{4}, LayerId{5}}}};
    const SkipRoutes apart = skip_routes(skips, Balance({2, 1, 1, 2}), {});
    EXPECT_THAT(apart.routes, ElementsAre(way(0, {0}), way(0, {1}), way(0, {3}), way(0, {2}), way(1, {3})));
    EXPECT_THAT(apart.skip_of, ElementsAre(0, 0, 0, 1, 2));
    const SkipRoutes in_v = skip_routes(skips, Balance({2, 1, 1, 2}), kWay);
    EXPECT_THAT(in_v.routes, ElementsAre(way(0, {0, 3}), way(0, {1}), way(0, {2}), way(1, {3})));
    EXPECT_THAT(skip_routes(std::span<const SkipLayers>(), Balance({1}), {}).routes, IsEmpty());
}

TEST(SkipRoutes, CarryOneTensorToALaneAndOneGradientBack) {
    PipelineShape shape{
        .num_partitions = 4, .num_micro_batches = 3, .placement = kWay, .skips = {way(0, {1, 2}), way(0, {0, 3})}};
    const TaskGraph graph = make_schedule(Schedule::zero_bubble_v, shape);
    EXPECT_EQ(number_of(graph, TaskKind::skip_forward), 3u)
        << "one for each micro-batch; the other route stays on its lane";
    EXPECT_EQ(number_of(graph, TaskKind::skip_backward), 3u);
    EXPECT_THAT(awaited_by(graph, {0, TaskKind::skip_backward, 0, 1, 0}), ElementsAre("backward (1, 1)"))
        << "the last backward of the two";
    EXPECT_THAT(awaited_by(graph, {0, TaskKind::forward, 1, 1, -1}),
                UnorderedElementsAre("copy_forward (1, 0)", "skip_forward (1, 0) skip 0"));
    EXPECT_THAT(awaited_by(graph, {0, TaskKind::forward, 2, 1, -1}), ElementsAre("forward (1, 1)"));
    EXPECT_EQ(graph.shape().lane_of(TaskKey{0, TaskKind::skip_backward, 0, 1, 0}), LaneId{1});
}

TEST(SkipRoutes, AreRefusedIfTheyCannotBe) {
    const auto fault = [](const SkipRoute& wrong) {
        PipelineShape shape{.num_partitions = 4, .num_micro_batches = 2, .placement = kWay, .skips = {wrong}};
        return thrown<UsageError>([&] { shape.check(); });
    };
    EXPECT_THAT(fault(way(0, {})), HasSubstr("skip 0 runs from partition 0 to none"));
    EXPECT_THAT(fault(way(2, {1})), HasSubstr("skip 0 runs from partition 2 to 1"));
    EXPECT_THAT(fault(way(0, {4})), HasSubstr("skip 0 runs from partition 0 to 4"));
    EXPECT_THAT(fault(way(0, {2, 1})), HasSubstr("sort them"));
    EXPECT_THAT(fault(way(0, {1, 1})), HasSubstr("or one twice"));
    EXPECT_THAT(fault(way(0, {1, 3})),
                HasSubstr("popped by partition 1 on lane 1 and by partition 3 on lane 0; a route goes to one lane"));
}
}  // namespace
}  // namespace pipescope
