#include "simulator/clock/host_launches.h"

#include "schedule/schedules.h"
#include "simulator/clock/event_engine.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/clock/virtual_clock.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace pipescope {
namespace {
/// A kernel of a pass: when the host calls it, from the first call of the pass, and how long the device takes. ns.
struct Kernel {
    double call = 0;
    double length = 0;
};

struct Pass {
    std::vector<Kernel> kernels;
    double host_ns = 0;

    double device_ns() const {
        return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                               [](double sum, const Kernel& kernel) { return sum + kernel.length; });
    }
    double paced_ns() const {
        double end = 0;
        for (const Kernel& kernel : kernels) {
            end = std::max(end, kernel.call) + kernel.length;
        }
        return end;
    }
};

Pass random_pass(std::mt19937& random) {
    std::uniform_real_distribution<double> time(0, 100);
    const double pace = time(random);  // of the calls: faster or slower than the kernels
    Pass pass;
    const std::size_t kernels = 1 + random() % 6;
    for (std::size_t k = 0; k < kernels; ++k) {
        pass.kernels.push_back({std::round(pass.host_ns), std::round(time(random))});
        pass.host_ns += std::round(pace * static_cast<double>(random() % 3));
    }
    return pass;
}

Pass joined(const Pass& first, const Pass& second) {
    Pass all = first;
    for (const Kernel& kernel : second.kernels) {
        all.kernels.push_back({first.host_ns + kernel.call, kernel.length});
    }
    all.host_ns += second.host_ns;
    return all;
}

LayerProfile launched_layer(const Pass& forward, const Pass& backward) {
    LayerProfile layer;
    layer.forward_ns = {forward.device_ns()};
    layer.backward_ns = {backward.device_ns()};
    layer.output_bytes = {1};
    layer.launches["forward"] = {forward.host_ns, forward.paced_ns(), 0, 0};
    layer.launches["backward"] = {backward.host_ns, backward.paced_ns(), 0, 0};
    return layer;
}

/// One layer for each of the partitions.
struct Launched {
    Profile profile;
    PipelineOptions options;
    std::vector<std::pair<Pass, Pass>> passes;  // forward and backward
};

Launched random_pipeline(std::mt19937& random) {
    Launched made;
    made.profile.samples = {1};
    made.profile.device = "cuda";
    const int partitions = 1 + static_cast<int>(random() % 4);
    for (int partition = 0; partition < partitions; ++partition) {
        made.passes.emplace_back(random_pass(random), random_pass(random));
        made.profile.layers.push_back(launched_layer(made.passes.back().first, made.passes.back().second));
        made.options.hardware.devices.push_back("cuda:" + std::to_string(partition));
    }
    made.options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(partitions), 1));
    made.options.chunks = made.options.batch = 1 + static_cast<int>(random() % 6);
    made.options.checkpoint = Checkpoint::never;
    made.options.schedule = random() % 2 == 0 ? Schedule(Schedule::gpipe) : Schedule(Schedule::one_f_one_b);
    return made;
}

/// When each task ends if devices run one kernel after the other, each once it is called and the task's input is there.
/// `begins`: of the lanes' hosts.
std::map<TaskKey, double> ends_by_kernels(const Launched& made, const TaskGraph& graph,
                                          const std::vector<double>& begins) {
    std::map<TaskKey, double> ends;
    std::vector<double> calls(graph.tasks().size());
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        double host = begins[static_cast<std::size_t>(lane)];
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            const TaskKey& key = graph.tasks()[task].key;
            calls[task] = host;
            if (is_compute(key.kind)) {
                const auto& [forward, backward] = made.passes[static_cast<std::size_t>(key.partition)];
                host += (key.kind == TaskKind::forward ? forward : backward).host_ns;
            }
        }
    }
    std::vector<double> free(static_cast<std::size_t>(graph.num_lanes()));
    std::vector<double> done(graph.tasks().size());
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {  // tasks are in topological order
        const Task& each = graph.tasks()[task];
        double now = is_copy(each.key.kind) ? 0 : free[each.lane.index()];
        for (const TaskIndex needed : graph.dependencies(task)) {
            now = std::max(now, done[needed]);
        }
        if (is_compute(each.key.kind)) {
            const auto& [forward, backward] = made.passes[static_cast<std::size_t>(each.key.partition)];
            for (const Kernel& kernel : (each.key.kind == TaskKind::forward ? forward : backward).kernels) {
                now = std::max(now, calls[task] + kernel.call) + kernel.length;
            }
            free[each.lane.index()] = now;
            ends[each.key] = now;
        }
        done[task] = now;
    }
    return ends;
}

/// Likewise of the fourth step in a row, in which a host begins once its device has done the step before.
std::map<TaskKey, double> ends_in_a_row(const Launched& made) {
    const TaskCosts costs(made.profile, made.options);
    const TaskGraph graph = pipeline_graph(made.options, costs);
    std::vector<double> begins(static_cast<std::size_t>(graph.num_lanes()));
    std::map<TaskKey, double> ends = ends_by_kernels(made, graph, begins);
    for (int step = 1; step < 4; ++step) {
        std::vector<double> lasts(begins.size());
        for (const auto& [key, end] : ends) {
            double& last = lasts[graph.shape().lane_of(PartitionId{key.partition}).index()];
            last = std::max(last, end);
        }
        for (std::size_t lane = 0; lane < begins.size(); ++lane) {
            begins[lane] = lasts[lane] - lasts.front();
        }
        ends = ends_by_kernels(made, graph, begins);
    }
    return ends;
}

TEST(HostLaunches, EndTasksWhenTheirKernelsWould) {
    std::mt19937 random(5);
    for (int round = 0; round < 500; ++round) {
        const Launched made = random_pipeline(random);
        const std::map<TaskKey, double> expected = ends_in_a_row(made);
        double step = 0;
        double begin = std::numeric_limits<double>::max();
        const Simulation simulation = simulate(CheckedProfile(made.profile), made.options);
        for (const Slice& slice : simulation.timeline.slices) {
            if (is_compute(slice.key.kind)) {
                ASSERT_EQ(static_cast<double>(slice.end.count()), expected.at(slice.key)) << "round " << round;
                begin = std::min(begin, static_cast<double>(slice.start.count()));
                step = std::max(step, static_cast<double>(slice.end.count()));
            }
        }
        EXPECT_EQ(begin, 0) << "the first task waits for launches within its time";
        EXPECT_EQ(static_cast<double>(simulation.step_time.count()), step);
    }
}

TEST(HostLaunches, TreatLayersOfOnePartitionAsOneTask) {
    std::mt19937 random(6);
    for (int round = 0; round < 200; ++round) {
        const Pass forward = random_pass(random);
        const Pass backward = random_pass(random);
        const Pass next_forward = random_pass(random);
        const Pass next_backward = random_pass(random);
        Launched made;
        made.profile.samples = {1};
        made.profile.layers = {launched_layer(forward, backward), launched_layer(next_forward, next_backward)};
        made.options.balance = Balance({2});
        made.options.chunks = made.options.batch = 3;
        made.options.checkpoint = Checkpoint::never;
        made.options.hardware.devices = {"cuda:0"};
        made.passes.emplace_back(joined(forward, next_forward), joined(next_backward, backward));
        const std::map<TaskKey, double> expected = ends_in_a_row(made);
        for (const Slice& slice : simulate(CheckedProfile(made.profile), made.options).timeline.slices) {
            if (is_compute(slice.key.kind)) {
                ASSERT_EQ(static_cast<double>(slice.end.count()), expected.at(slice.key)) << "round " << round;
            }
        }
    }
}

TEST(HostLaunches, LaunchAMessageOnBothSides) {
    Profile profile;
    profile.samples = {1};
    profile.device = "cuda";
    for (int layer = 0; layer < 2; ++layer) {
        LayerProfile each = launched_layer({{{0, 100}}, 300}, {{{0, 100}}, 300});
        each.launches["forward"].sends_ns = 250;
        each.launches["forward"].receives_ns = 20;
        profile.layers.push_back(each);
    }
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 2;
    options.checkpoint = Checkpoint::never;
    options.hardware.devices = {"cuda:0", "cuda:1"};
    options.hardware.link.latency_ns = 10;
    for (const Slice& slice : simulate(CheckedProfile(profile), options).timeline.slices) {
        if (slice.key.kind == TaskKind::copy_forward) {
            EXPECT_EQ(slice.start.count(), slice.key.micro_batch == 0 ? 250 : 550);
        }
    }
}

TEST(HostLaunches, SplitABackwardIntoItsHalves) {
    LayerProfile layer = launched_layer({{{0, 100}}, 10}, {{{0, 60}}, 500});
    layer.backward_ns = {100};
    layer.backward_weight_ns = {40};
    layer.gradient_bytes = layer.parameter_bytes = 4;
    layer.launches["backward_weight"] = {30, 40, 0, 0};
    Profile profile;
    profile.samples = {1};
    profile.layers = {layer, layer};
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 1;
    options.checkpoint = Checkpoint::never;
    options.hardware.devices = {"cuda:0", "cuda:1"};
    for (const Schedule::Name name : {Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        options.schedule = name;
        const TaskCosts costs(profile, options);
        const TaskGraph graph = pipeline_graph(options, costs);
        const HostLaunches launches = *host_launches(profile, options, graph);
        const TaskIndex backward = *graph.find({-1, TaskKind::backward, 0, 0, -1});
        EXPECT_EQ(launches.paced[backward], name == Schedule::one_f_one_b ? 540 : 60);
        if (const auto weights = graph.find({-1, TaskKind::backward_weight, 0, 0, -1})) {
            EXPECT_EQ(launches.launched[*weights], launches.launched[backward] + 500);
            EXPECT_EQ(launches.paced[*weights], 40);
        }
    }
}

TEST(HostLaunches, AreLeftOutWhereTasksWaitForSomethingElse) {
    const LayerProfile layer = launched_layer({{{0, 100}}, 300}, {{{0, 100}}, 300});
    const CheckedProfile profile = profile_of({layer, layer});
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 4;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::one_f_one_b;
    options.hardware.devices = {"cuda:0", "cuda:1"};
    const auto has_launches = [&](const PipelineOptions& changed) {
        return host_launches(profile, changed, pipeline_graph(changed, TaskCosts(profile, changed))).has_value();
    };
    EXPECT_TRUE(has_launches(options));
    PipelineOptions limited = options;
    limited.most_in_flight = 1;
    EXPECT_FALSE(has_launches(limited));
    options.hardware.link.sends = Sends::blocking;
    EXPECT_FALSE(has_launches(options));
}

// On a faster device, what launches take stays.
TEST(HostLaunches, KeepTheirTimeOnAnotherDevice) {
    Pass pass{{}, 100};
    for (int kernel = 0; kernel < 10; ++kernel) {
        pass.kernels.push_back({10.0 * kernel, 40});
    }
    Profile profile;
    profile.samples = {1};
    profile.layers = {launched_layer(pass, pass)};
    PipelineOptions options;
    options.balance = Balance({1});
    options.chunks = options.batch = 1;
    options.checkpoint = Checkpoint::never;
    options.hardware.devices = {"cuda:0"};
    for (const auto& [speed, expected] : {std::pair(1.0, 400.0), std::pair(2.0, 250.0), std::pair(100.0, 103.0)}) {
        options.hardware.speeds = {speed};
        const TaskCosts costs(profile, options);
        const HostLaunches launches = *host_launches(profile, options, pipeline_graph(options, costs));
        EXPECT_EQ(launches.paced.front(), expected);
    }
}

TEST(HostLaunches, AreNoneWithoutLaunchesInTheProfile) {
    const Profile profile = uniform_profile(2);
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 2;
    const TaskCosts costs(profile, options);
    EXPECT_FALSE(host_launches(profile, options, pipeline_graph(options, costs)));
}

TEST(EventEngine, StartsNoTaskBeforeItIsReleased) {
    std::mt19937 random(9);
    for (int round = 0; round < 300; ++round) {
        const PipelineShape shape{.num_partitions = 1 + static_cast<int>(random() % 4),
                                  .num_micro_batches = 1 + static_cast<int>(random() % 6)};
        const TaskGraph graph = make_schedule(Schedule::gpipe, shape);
        std::vector<double> durations(graph.tasks().size());
        std::vector<double> released(durations.size());
        for (std::size_t task = 0; task < durations.size(); ++task) {
            durations[task] = static_cast<double>(random() % 100);
            released[task] = random() % 3 == 0 ? 0 : static_cast<double>(random() % 2000);
        }
        SharedResources resources;
        for (int lane = 0; lane < graph.num_lanes(); ++lane) {
            resources.server_of_lane.push_back(resources.speeds.size());
            resources.speeds.push_back({1});
        }
        for (std::size_t k = 0; k < graph.channels().size(); ++k) {
            resources.server_of_channel.push_back(resources.speeds.size());
            resources.speeds.push_back({1});
        }
        resources.has_releases = true;
        std::vector<double> expected(durations.size());
        TaskClock(graph).run(durations, expected, released);
        EventEngine engine(graph, resources);
        for (int run = 0; run < 2; ++run) {  // it keeps its state
            std::vector<double> starts(durations.size());
            std::vector<double> ends(durations.size());
            engine.run(durations, starts, ends, released);
            for (std::size_t task = 0; task < ends.size(); ++task) {
                ASSERT_NEAR(ends[task], expected[task], 1e-6) << "round " << round;
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
