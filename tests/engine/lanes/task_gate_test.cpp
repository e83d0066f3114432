#include "engine/lanes/task_gate.h"

#include "engine/cores/usable_cores.h"
#include "engine/lanes/lanes.h"
#include "schedule/schedules.h"
#include "tests/engine/first_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace pipescope {
namespace {
TaskGraph graph_of(int n, int m) {
    return make_schedule(Schedule::gpipe,
                         {.num_partitions = n, .num_micro_batches = m, .checkpoint = Checkpoint::always});
}

/// Runs the graph on separate lanes, copies after their sources. Expects every task after its dependencies. Returns the
/// maximum number of lanes that were in a task at the same time.
int run_through(const TaskGraph& graph, CoreScheduler* turns) {
    TaskGate gate(graph, turns);
    std::vector<std::atomic<bool>> ended(graph.tasks().size());
    std::atomic<int> early = 0;
    std::atomic<int> in_task = 0;
    std::atomic<int> most = 0;
    Lanes lanes(first_lanes(graph.num_lanes()), [] {});
    const auto run = [&](TaskIndex task) {
        const int now = ++in_task;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        for (const TaskIndex needed : graph.dependencies(task)) {
            early += ended[needed] ? 0 : 1;
        }
        ended[task] = true;
        --in_task;
        gate.finish(task);
    };
    lanes.run([&](LaneId lane) {
        for (const TaskIndex task : graph.lane_order(lane)) {
            ASSERT_TRUE(gate.wait(task));
            run(task);
            for (const TaskIndex next : graph.dependents(task)) {
                if (is_copy(graph.tasks()[next].key.kind)) {
                    run(next);
                }
            }
        }
        gate.leave(lane);
    });
    EXPECT_EQ(early, 0);
    EXPECT_TRUE(std::all_of(ended.begin(), ended.end(), [](const auto& each) { return each.load(); }));
    return most;
}

TEST(TaskGate, LetsEveryTaskInOnlyBehindItsDependencies) {
    for (int repeat = 0; repeat < 20; ++repeat) {
        run_through(graph_of(4, 8), nullptr);
    }
}

TEST(TaskGate, LetsNoMoreLanesInThanHaveATurn) {
    for (const std::size_t cores : {1, 2}) {
        CoreScheduler turns(std::vector<bool>(4, true), std::vector<int>(cores, usable_core_numbers().front()),
                            std::chrono::hours(1));
        for (int repeat = 0; repeat < 20; ++repeat) {
            EXPECT_LE(run_through(graph_of(4, 8), &turns), static_cast<int>(cores));
        }
    }
}

TEST(TaskGate, LetsLanesInThatTakeNoTurns) {
    // Lane 1 needs no core, as if it were on an accelerator.
    CoreScheduler turns({true, false, true}, {usable_core_numbers().front()}, std::chrono::hours(1));
    run_through(graph_of(3, 8), &turns);
}

TEST(TaskGate, StopWakesLanesThatWaitForATurn) {
    const TaskGraph graph = graph_of(3, 2);
    CoreScheduler turns(std::vector<bool>(3, true), {usable_core_numbers().front()}, std::chrono::hours(1));
    TaskGate gate(graph, &turns);
    std::atomic<int> stopped = 0;
    Lanes lanes(first_lanes(3), [] {});
    lanes.run([&](LaneId lane) {
        if (lane == LaneId{0}) {
            ASSERT_TRUE(gate.wait(graph.lane_order(lane).front()));
            gate.stop();
        } else {
            stopped += gate.wait(graph.lane_order(lane).front()) ? 0 : 1;
        }
        gate.leave(lane);
    });
    EXPECT_EQ(stopped, 2);
}

TEST(TaskGate, StopWakesEveryWaitingLane) {
    const TaskGraph graph = graph_of(3, 2);
    TaskGate gate(graph);
    std::atomic<int> stopped = 0;
    Lanes lanes(first_lanes(3), [] {});
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
