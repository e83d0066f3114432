#include "simulator/clock/event_engine.h"
#include "base/error.h"
#include "schedule/schedules.h"
#include "simulator/clock/task_clock.h"
#include "tests/simulator/clock/random_graph.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <random>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

SharedResources one_device(const TaskGraph& graph, int capacity) {
    SharedResources resources = nothing_shared(graph);
    std::vector<double>& speeds = resources.speeds.emplace_back();
    for (int busy = 1; busy <= graph.num_lanes(); ++busy) {
        speeds.push_back(std::min(1.0, static_cast<double>(capacity) / busy));
    }
    resources.server_of_lane.assign(static_cast<std::size_t>(graph.num_lanes()), resources.speeds.size() - 1);
    return resources;
}

struct EngineRun {
    std::vector<double> starts, ends;

    double makespan() const { return *std::max_element(ends.begin(), ends.end()); }
};

EngineRun run(const TaskGraph& graph, const SharedResources& resources, const std::vector<double>& durations) {
    EventEngine engine(graph, resources);
    EngineRun result{std::vector<double>(durations.size()), std::vector<double>(durations.size())};
    engine.run(durations, result.starts, result.ends);
    return result;
}

/// 1000 for a forward or recompute, 2000 for a backward, 0 for the rest.
std::vector<double> uniform_durations(const TaskGraph& graph) {
    std::vector<double> durations;
    for (const Task& task : graph.tasks()) {
        durations.push_back(task.key.kind == TaskKind::backward ? 2000 : is_compute(task.key.kind) ? 1000 : 0);
    }
    return durations;
}

TEST(EventEngine, GivesTheRecurrencesAnswerWhereNothingIsShared) {
    std::mt19937 random(3);
    for (int round = 0; round < 2000; ++round) {
        const TaskGraph graph = random_graph(random);
        const std::vector<double> durations = random_durations(random, graph.tasks().size());
        std::vector<double> expected(durations.size());
        TaskClock(graph).run(durations, expected);
        const EngineRun events = run(graph, nothing_shared(graph), durations);
        for (std::size_t task = 0; task < expected.size(); ++task) {
            ASSERT_NEAR(events.ends[task], expected[task], 1e-9 * (1 + expected[task])) << "round " << round;
            ASSERT_NEAR(events.starts[task], expected[task] - durations[task], 1e-9 * (1 + expected[task]));
        }
    }
}

/// Ends of tasks if receives are posted late, by repeating the definition until nothing changes.
std::vector<double> ends_with_late_receives(const TaskGraph& graph, const std::vector<double>& durations) {
    std::vector<std::vector<TaskIndex>> needed(durations.size());
    std::vector<TaskIndex> before(durations.size(), durations.size());
    const auto chain = [&](std::span<const TaskIndex> order) {
        for (std::size_t k = 1; k < order.size(); ++k) {
            needed[order[k]].push_back(order[k - 1]);
            before[order[k]] = order[k - 1];
        }
    };
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        chain(graph.lane_order(LaneId{lane}));
    }
    for (const Channel& channel : graph.channels()) {
        chain(channel.order);
    }
    for (TaskIndex task = 0; task < durations.size(); ++task) {
        const auto dependencies = graph.dependencies(task);
        needed[task].insert(needed[task].end(), dependencies.begin(), dependencies.end());
    }
    for (const Channel& channel : graph.channels()) {
        for (std::size_t k = 0; k < channel.order.size(); ++k) {
            // The first task of the receiver that waits for this copy or one behind it.
            for (const TaskIndex user : graph.lane_order(channel.to)) {
                const auto needs = graph.dependencies(user);
                if (std::any_of(channel.order.begin() + static_cast<std::ptrdiff_t>(k), channel.order.end(),
                                [&](TaskIndex copy) { return std::ranges::find(needs, copy) != needs.end(); })) {
                    if (before[user] < durations.size()) {
                        needed[channel.order[k]].push_back(before[user]);
                    }
                    break;
                }
            }
        }
    }
    std::vector<double> ends(durations.size());
    for (bool changed = true; changed;) {
        changed = false;
        for (TaskIndex task = 0; task < durations.size(); ++task) {
            double start = 0;
            for (const TaskIndex each : needed[task]) {
                start = std::max(start, ends[each]);
            }
            changed = changed || start + durations[task] > ends[task] + 1e-9;
            ends[task] = std::max(ends[task], start + durations[task]);
        }
    }
    return ends;
}

TEST(EventEngine, StartsACopyOnceItsReceiverIsReadyIfReceivesBlock) {
    // gpipe on two lanes, forwards of 1000 and copies of 500. Copy 1 waits until lane 1 has ended forward (0, 1):
    //     lane 0   |F0  |F1  |
    //     link          |c0|       |c1|
    //     lane 1           |F0  |     |F1  |
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2});
    std::vector<double> durations;
    for (const Task& task : graph.tasks()) {
        durations.push_back(task.key.kind == TaskKind::copy_forward ? 500
                            : task.key.kind == TaskKind::forward    ? 1000
                                                                    : 0);
    }
    SharedResources resources = nothing_shared(graph);
    const TaskIndex last = graph.find({0, TaskKind::forward, 1, 1, -1}).value();
    EXPECT_EQ(run(graph, resources, durations).ends[last], 3500);
    resources.is_received_late.assign(graph.channels().size(), true);
    EXPECT_EQ(run(graph, resources, durations).ends[last], 4000);

    std::mt19937 random(23);
    for (int round = 0; round < 100; ++round) {
        const TaskGraph any = random_graph(random);
        const std::vector<double> own = random_durations(random, any.tasks().size());
        SharedResources late = nothing_shared(any);
        late.is_received_late.assign(any.channels().size(), true);
        const std::vector<double> expected = ends_with_late_receives(any, own);
        const EngineRun events = run(any, late, own);
        for (std::size_t task = 0; task < expected.size(); ++task) {
            ASSERT_NEAR(events.ends[task], expected[task], 1e-9 * (1 + expected[task])) << "round " << round;
        }
    }
}

/// Copies of every other channel, or of all, take no time.
void make_channels_free(const TaskGraph& graph, std::mt19937& random, std::vector<double>& durations) {
    const bool all = random() % 2 == 0;
    for (const Channel& channel : graph.channels()) {
        for (const TaskIndex copy : channel.order) {
            durations[copy] = all || channel.from.value() % 2 == 0 ? 0 : durations[copy];
        }
    }
}

TEST(EventEngine, PassesOverFreeCopiesAsTheRecurrenceDoes) {
    std::mt19937 random(13);
    for (int round = 0; round < 1000; ++round) {
        const TaskGraph graph = random_graph(random);
        std::vector<double> durations = random_durations(random, graph.tasks().size());
        make_channels_free(graph, random, durations);
        std::vector<double> expected(durations.size());
        TaskClock(graph).run(durations, expected);
        const EngineRun events = run(graph, nothing_shared(graph), durations);
        for (std::size_t task = 0; task < expected.size(); ++task) {
            ASSERT_NEAR(events.ends[task], expected[task], 1e-9 * (1 + expected[task])) << "round " << round;
            ASSERT_NEAR(events.starts[task], expected[task] - durations[task], 1e-9 * (1 + expected[task]));
        }
    }
}

TEST(EventEngine, GivesFreeCopiesTheTimesOfThoseThatTakeNextToNone) {
    std::mt19937 random(14);
    for (int round = 0; round < 300; ++round) {
        const TaskGraph graph = random_graph(random);
        std::vector<double> durations = random_durations(random, graph.tasks().size());
        for (std::size_t task = 0; task < durations.size(); ++task) {
            durations[task] += is_copy(graph.tasks()[task].key.kind) ? 0 : 1;  // a task each, none of them free
        }
        make_channels_free(graph, random, durations);
        const EngineRun free = run(graph, one_device(graph, 1), durations);
        std::vector<double> nearly = durations;
        for (std::size_t task = 0; task < nearly.size(); ++task) {
            nearly[task] += durations[task] > 0 ? 0 : 1e-7;
        }
        const EngineRun timed = run(graph, one_device(graph, 1), nearly);
        for (std::size_t task = 0; task < durations.size(); ++task) {
            ASSERT_NEAR(free.ends[task], timed.ends[task], 1e-2) << "round " << round;
        }
    }
}

TEST(EventEngine, MayHaveFreeCopiesInOneRunAndNotInTheNext) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 4, .num_micro_batches = 8});
    const std::vector<double> timed(graph.tasks().size(), 100);
    const std::vector<double> free = uniform_durations(graph);
    EventEngine engine(graph, one_device(graph, 2));
    EngineRun again{std::vector<double>(timed.size()), std::vector<double>(timed.size())};
    for (const std::vector<double>& durations : {timed, free, timed, free}) {
        engine.run(durations, again.starts, again.ends);
        const EngineRun fresh = run(graph, one_device(graph, 2), durations);
        EXPECT_EQ(again.ends, fresh.ends);
        EXPECT_EQ(again.starts, fresh.starts);
    }
}

TEST(EventEngine, HalvesTheSpeedOfTwoLanesThatWorkOnOneDevice) {
    // n = 2, m = 2 on one device:   F0 | F1 and F0' at half speed | F1' | B1' | then B0' beside B1, R0 with its turn
    //   ns      0    1000           3000   4000   6000
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2, .checkpoint = Checkpoint::never});
    const EngineRun shared = run(graph, one_device(graph, 1), uniform_durations(graph));
    const auto at = [&](TaskKind kind, int i, int j) { return *graph.find({0, kind, j, i, -1}); };
    EXPECT_DOUBLE_EQ(shared.ends[at(TaskKind::forward, 0, 0)], 1000);
    EXPECT_DOUBLE_EQ(shared.ends[at(TaskKind::forward, 1, 0)], 3000);
    EXPECT_DOUBLE_EQ(shared.ends[at(TaskKind::forward, 0, 1)], 3000);
    EXPECT_DOUBLE_EQ(shared.ends[at(TaskKind::forward, 1, 1)], 4000);
    EXPECT_DOUBLE_EQ(shared.ends[at(TaskKind::backward, 1, 1)], 6000);
    EXPECT_DOUBLE_EQ(shared.ends[at(TaskKind::backward, 0, 1)], 10000) << "beside backward (1, 0)";
    EXPECT_DOUBLE_EQ(shared.makespan(), 12000) << "the work of both lanes, one after the other";
}

TEST(EventEngine, NeverBeatsTheWorkOverTheCapacityNorTheRecurrence) {
    std::mt19937 random(5);
    for (int round = 0; round < 500; ++round) {
        const TaskGraph graph = random_graph(random);
        std::vector<double> durations = random_durations(random, graph.tasks().size());
        double work = 0;
        for (std::size_t task = 0; task < durations.size(); ++task) {
            work += is_copy(graph.tasks()[task].key.kind) ? 0 : durations[task];
        }
        const int capacity = 1 + static_cast<int>(random() % 3);
        const double shared = run(graph, one_device(graph, capacity), durations).makespan();
        std::vector<double> alone(durations.size());
        TaskClock(graph).run(durations, alone);
        EXPECT_GE(shared, work / capacity * (1 - 1e-9));
        EXPECT_GE(shared, *std::max_element(alone.begin(), alone.end()) * (1 - 1e-9));
        EXPECT_LE(shared, std::accumulate(durations.begin(), durations.end(), 0.0) * (1 + 1e-9));
    }
}

/// All lanes on this many cores, each of which runs one task at a time.
SharedResources cores_of(const TaskGraph& graph, std::size_t count) {
    SharedResources resources = nothing_shared(graph);
    resources.server_of_lane.assign(static_cast<std::size_t>(graph.num_lanes()), resources.speeds.size());
    resources.speeds.emplace_back(count, 1.0);
    return resources;
}

TEST(EventEngine, LetsLanesWaitForACore) {
    // n = 3, m = 2, one core: it stays with its lane while that has work, then goes to the lane that asked first.
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 3, .num_micro_batches = 2, .checkpoint = Checkpoint::never});
    const EngineRun turns = run(graph, cores_of(graph, 1), uniform_durations(graph));
    const auto start = [&](int i, int j) { return turns.starts[*graph.find({0, TaskKind::forward, j, i, -1})]; };
    EXPECT_DOUBLE_EQ(start(0, 0), 0);
    EXPECT_DOUBLE_EQ(start(1, 0), 1000) << "the lane's next task is there when the core is free";
    EXPECT_DOUBLE_EQ(start(0, 1), 2000);
    EXPECT_DOUBLE_EQ(start(1, 1), 3000);
    EXPECT_DOUBLE_EQ(start(0, 2), 4000);
    EXPECT_DOUBLE_EQ(start(1, 2), 5000);
    EXPECT_DOUBLE_EQ(turns.makespan(), 2 * 3 * 3000) << "the work of all lanes, one task after the other";
}

TEST(EventEngine, ChangesLanesWithEveryTaskOnlyWhereTasksAreLong) {
    // n = 2, m = 4, one core: after the last lane's first backward, both lanes have one to run.
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 4, .checkpoint = Checkpoint::never});
    const double slice = std::chrono::duration<double, std::nano>(kCoreSlice).count();
    const auto first_lane_waits = [&](double duration) {
        std::vector<double> durations(graph.tasks().size(), 0);
        for (TaskIndex task = 0; task < durations.size(); ++task) {
            const TaskKind kind = graph.tasks()[task].key.kind;
            durations[task] = kind == TaskKind::forward || kind == TaskKind::backward ? duration : 0;
        }
        const EngineRun turns = run(graph, cores_of(graph, 1), durations);
        EXPECT_NEAR(turns.makespan(), 16 * duration, 1e-6);
        const auto start = [&](int i, int j) { return turns.starts[*graph.find({0, TaskKind::backward, j, i, -1})]; };
        return start(3, 0) > start(2, 1);
    };
    EXPECT_FALSE(first_lane_waits(slice)) << "it asked first";
    EXPECT_TRUE(first_lane_waits(slice / 100)) << "the last lane keeps the core for a slice";
}

/// Times at which each task could start if only its dependencies delayed it, and not the cores.
std::vector<double> ready_times(const TaskGraph& graph, const std::vector<double>& ends) {
    std::vector<double> ready(ends.size(), 0);
    for (TaskIndex task = 0; task < ends.size(); ++task) {
        for (const TaskIndex needed : graph.dependencies(task)) {
            ready[task] = std::max(ready[task], ends[needed]);
        }
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        const auto order = graph.lane_order(LaneId{lane});
        for (std::size_t k = 1; k < order.size(); ++k) {
            ready[order[k]] = std::max(ready[order[k]], ends[order[k - 1]]);
        }
    }
    return ready;
}

TEST(EventEngine, NeverHasMoreTasksAtWorkThanCoresNorACoreIdleWhileOneWaits) {
    std::mt19937 random(11);
    for (int round = 0; round < 500; ++round) {
        const TaskGraph graph = random_graph(random);
        const std::vector<double> durations = random_durations(random, graph.tasks().size());
        const std::size_t cores = 1 + random() % 3;
        const EngineRun turns = run(graph, cores_of(graph, cores), durations);
        const std::vector<double> ready = ready_times(graph, turns.ends);
        std::vector<TaskIndex> working;
        for (int lane = 0; lane < graph.num_lanes(); ++lane) {
            std::ranges::copy_if(graph.lane_order(LaneId{lane}), std::back_inserter(working),
                                 [&](TaskIndex task) { return durations[task] > 0; });
        }
        const auto at_work = [&](double time) {
            return static_cast<std::size_t>(std::ranges::count_if(working, [&](TaskIndex task) {
                return turns.starts[task] <= time + 1e-6 && time + 1e-6 < turns.ends[task];
            }));
        };
        for (const TaskIndex task : working) {
            ASSERT_NEAR(turns.ends[task] - turns.starts[task], durations[task], 1e-6) << "it has a core to itself";
            ASSERT_GE(turns.starts[task], ready[task] - 1e-6);
            ASSERT_LE(at_work(turns.starts[task]), cores);
            if (turns.starts[task] > ready[task] + 1e-5) {
                ASSERT_EQ(at_work(ready[task]), cores) << "task " << task << " waits from " << ready[task];
                ASSERT_EQ(at_work(turns.starts[task] - 1e-5), cores) << "task " << task << " waits to its start";
            }
        }
    }
}

TEST(EventEngine, TakesTheWholeWorkOnADeviceThatIsNeverIdle) {
    // With many micro-batches, eight lanes on two cores finish when the work is done, except for filling and draining.
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 8, .num_micro_batches = 64, .checkpoint = Checkpoint::never});
    const double step = run(graph, one_device(graph, 2), uniform_durations(graph)).makespan();
    EXPECT_NEAR(step, 8 * 64 * 3000 / 2.0, 0.02 * step);
}

TEST(EventEngine, SharesALinkBetweenItsChannels) {
    // Three lanes. The copies over both boundaries, 3000 each, share one link: (0, 0) is alone until 4000, then (1, 0)
    // and (0, 1) halve it.
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 3, .num_micro_batches = 2, .checkpoint = Checkpoint::never});
    std::vector<double> durations = uniform_durations(graph);
    for (std::size_t task = 0; task < durations.size(); ++task) {
        durations[task] = graph.tasks()[task].key.kind == TaskKind::copy_forward ? 3000 : durations[task];
    }
    SharedResources resources = nothing_shared(graph);
    resources.speeds.push_back({1, 0.5, 1.0 / 3, 0.25});
    resources.server_of_channel.assign(graph.channels().size(), resources.speeds.size() - 1);
    const EngineRun shared = run(graph, resources, durations);
    const auto copy = [&](int i, int j) { return *graph.find({0, TaskKind::copy_forward, j, i, -1}); };
    EXPECT_DOUBLE_EQ(shared.ends[copy(0, 0)], 4000);
    EXPECT_DOUBLE_EQ(shared.starts[copy(1, 0)], 4000);
    EXPECT_DOUBLE_EQ(shared.starts[copy(0, 1)], 5000);
    EXPECT_DOUBLE_EQ(shared.ends[copy(1, 0)], 9000) << "1000 alone, then 2000 at half speed";
    EXPECT_DOUBLE_EQ(shared.ends[copy(0, 1)], 10000) << "2000 by 9000, the rest alone";
}

TEST(EventEngine, StartsNoTaskBeforeTheHostHasLaunchedIt) {
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2, .checkpoint = Checkpoint::never});
    SharedResources resources = nothing_shared(graph);
    for (const Task& task : graph.tasks()) {
        resources.launch_ns.push_back(is_compute(task.key.kind) ? 5000 : 0);
    }
    resources.process_of_lane = {0, 0};
    // Eight sequential launches. The last task, a backward of 2000, starts after the last of them.
    EXPECT_DOUBLE_EQ(run(graph, resources, uniform_durations(graph)).makespan(), 8 * 5000 + 2000);
    resources.process_of_lane = {0, 1};  // a process each: half as many launches
    EXPECT_LT(run(graph, resources, uniform_durations(graph)).makespan(), 6 * 5000);
    for (double& launch : resources.launch_ns) {
        launch = launch > 0 ? 10 : 0;  // launched ahead: only the first is waited for
    }
    EXPECT_DOUBLE_EQ(run(graph, resources, uniform_durations(graph)).makespan(), 9000 + 10);
}

TEST(EventEngine, HoldsMicroBatchesBackAtTheLimitInFlight) {
    const TaskGraph graph = make_schedule(
        Schedule::one_f_one_b, {.num_partitions = 3, .num_micro_batches = 8, .checkpoint = Checkpoint::never});
    const auto most_live = [&](const EngineRun& each) {
        int most = 0;
        for (int i = 0; i < 8; ++i) {
            const double now = each.starts[*graph.find({0, TaskKind::forward, 0, i, -1})];
            int live = 0;
            for (int k = 0; k < 8; ++k) {
                live += each.starts[*graph.find({0, TaskKind::forward, 0, k, -1})] <= now &&
                                each.ends[*graph.find({0, TaskKind::backward, 0, k, -1})] > now
                            ? 1
                            : 0;
            }
            most = std::max(most, live);
        }
        return most;
    };
    SharedResources resources = nothing_shared(graph);
    const std::vector<double> durations = uniform_durations(graph);
    const EngineRun free = run(graph, resources, durations);
    EXPECT_EQ(most_live(free), 3);
    resources.most_in_flight = 3;
    EXPECT_EQ(run(graph, resources, durations).ends, free.ends) << "as many as it needs: nothing changes";
    resources.most_in_flight = 1;
    const EngineRun one = run(graph, resources, durations);
    EXPECT_EQ(most_live(one), 1);
    EXPECT_DOUBLE_EQ(one.makespan(), 8 * 3 * 3000) << "one micro-batch after the other";
    resources.most_in_flight = 2;
    EXPECT_EQ(most_live(run(graph, resources, durations)), 2);
}

TEST(EventEngine, SaysWhereALimitLetsTheStepNeverEnd) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 4});
    SharedResources resources = nothing_shared(graph);
    resources.most_in_flight = 2;
    EXPECT_THAT(thrown<Error>([&] { run(graph, resources, uniform_durations(graph)); }),
                AllOf(HasSubstr("at most 2 micro-batches"), HasSubstr("raise --in-flight")));
}

TEST(EventEngine, RunsAgainAsTheFirstTime) {
    std::mt19937 random(8);
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 4, .num_micro_batches = 8});
    const std::vector<double> durations = random_durations(random, graph.tasks().size());
    EventEngine engine(graph, one_device(graph, 2));
    std::vector<double> starts(durations.size());
    std::vector<double> first(durations.size());
    std::vector<double> second(durations.size());
    engine.run(durations, starts, first);
    engine.run(durations, starts, second);
    EXPECT_EQ(first, second);
}
}  // namespace
}  // namespace pipescope
