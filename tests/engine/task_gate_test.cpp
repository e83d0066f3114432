#include "engine/task_gate.h"

#include "engine/lanes.h"
#include "schedule/gpipe_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace pipescope {
namespace {
TaskGraph graph_of(int n, int m) {
    return gpipe_schedule({.num_partitions = n, .num_micro_batches = m, .checkpoint = Checkpoint::always});
}

TEST(TaskGate, LetsEveryTaskInOnlyBehindItsDependencies) {
    const TaskGraph graph = graph_of(4, 8);
    for (int repeat = 0; repeat < 20; ++repeat) {
        TaskGate gate(graph);
        std::vector<std::atomic<bool>> ended(graph.tasks().size());
        std::atomic<int> early = 0;
        Lanes lanes(graph.num_lanes(), [] {});
        const auto run = [&](TaskIndex task) {
            ASSERT_TRUE(gate.wait(task));
            for (const TaskIndex needed : graph.dependencies(task)) {
                early += ended[needed] ? 0 : 1;
            }
            ended[task] = true;
            gate.finish(task);
        };
        lanes.run([&](LaneId lane) {
            for (const TaskIndex task : graph.lane_order(lane)) {
                run(task);
                for (const TaskIndex next : graph.dependents(task)) {
                    if (is_copy(graph.tasks()[next].key.kind)) {
                        run(next);
                    }
                }
            }
        });
        EXPECT_EQ(early, 0);
        EXPECT_TRUE(std::all_of(ended.begin(), ended.end(), [](const auto& each) { return each.load(); }));
    }
}

TEST(TaskGate, StopWakesEveryWaitingLane) {
    const TaskGraph graph = graph_of(3, 2);
    TaskGate gate(graph);
    std::atomic<int> stopped = 0;
    Lanes lanes(3, [] {});
    lanes.run([&](LaneId lane) {
        if (lane == LaneId{0}) {
            gate.stop();  // the others wait for this lane's first forward, which never comes
            return;
        }
        stopped += gate.wait(graph.lane_order(lane).front()) ? 0 : 1;
    });
    EXPECT_EQ(stopped, 2);
    EXPECT_TRUE(gate.stopped());
}
}  // namespace
}  // namespace pipescope
