#include "analysis/calibration.h"

#include "base/error.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "simulator/simulation.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

constexpr int kSteps = 3;

/// Four layers of different cost, measured at two sizes on two busy lanes, which slow each other down by a fifth.
Profile four_layers() {
    Profile profile;
    profile.model = "m";
    profile.samples = {4, 8};
    profile.co_running_lanes = 2;
    profile.co_running_slowdown = {1, 1.2};
    profile.host_cores = 2;
    profile.optimizer_ns = 1000;
    for (const double cost : {1e6, 1.5e6, 8e5, 6e5}) {
        LayerProfile layer;
        layer.name = "layer " + std::to_string(profile.layers.size());
        layer.gradient_bytes = layer.parameter_bytes = 64;
        layer.forward_ns = {cost, 1.8 * cost};
        layer.recompute_ns = layer.graph_forward_ns = {1.1 * cost, 2 * cost};
        layer.backward_ns = {2 * cost, 3.5 * cost};
        layer.backward_weight_ns = {0.9 * cost, 1.5 * cost};
        layer.output_bytes = {1 << 20, 2 << 20};
        profile.layers.push_back(layer);
    }
    profile.loss_ns = {2e5, 3e5};
    profile.loss_batch = {{48}, {9e5}, {}};
    return profile;
}

/// How much longer a layer takes than its profile says.
struct Change {
    double forward = 1, recompute = 1, input = 1, weight = 1;
};

Profile changed(Profile profile, const std::vector<Change>& changes, double loss = 1) {
    const auto scale = [](PerSize& values, double factor) {
        for (double& value : values) {
            value *= factor;
        }
    };
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        LayerProfile& layer = profile.layers[l];
        const Change& change = changes[l];
        scale(layer.forward_ns, change.forward);
        scale(layer.recompute_ns, change.recompute);
        scale(layer.graph_forward_ns, change.recompute);  // both keep a graph
        for (std::size_t k = 0; k < layer.backward_ns.size(); ++k) {
            layer.backward_ns[k] = change.input * (layer.backward_ns[k] - layer.backward_weight_ns[k]) +
                                   change.weight * layer.backward_weight_ns[k];
        }
        scale(layer.backward_weight_ns, change.weight);
    }
    scale(profile.loss_ns, loss);
    scale(profile.loss_batch.ns, loss);
    return profile;
}

PipelineOptions on_two_lanes(std::vector<std::int64_t> balance, Checkpoint checkpoint,
                             Schedule schedule = Schedule::gpipe) {
    PipelineOptions options;
    options.balance = Balance(std::move(balance));
    options.chunks = 6;
    options.batch = 48;
    options.checkpoint = checkpoint;
    options.schedule = schedule;
    options.hardware.devices.assign(options.balance.num_partitions(), "cpu");
    options.hardware.host_cores = 2;
    return options;
}

/// The simulated step several times, as the engine records it.
Timeline run_of(const Profile& machine, const PipelineOptions& options) {
    const Simulation simulation = simulate(CheckedProfile(machine), options);
    Timeline measured{Source::measured, simulation.timeline.lanes, {}};
    for (int step = 0; step < kSteps; ++step) {
        for (Slice slice : simulation.timeline.slices) {
            slice.key.step = step;
            slice.start += step * (simulation.step_time + Nanoseconds{1'000'000});
            slice.end += step * (simulation.step_time + Nanoseconds{1'000'000});
            measured.slices.push_back(slice);
        }
    }
    sort_slices(measured);
    return measured;
}

const std::vector<std::int32_t> kAllSteps{0, 1, 2};

Profile calibrated(const Profile& earlier, const PipelineOptions& options, const Timeline& measured) {
    return calibrated_profile(CheckedProfile(earlier), std::array{CalibrationRun{options, measured, kAllSteps}});
}

/// Largest relative difference of the layers' times.
double difference(const Profile& a, const Profile& b) {
    double most = 0;
    const auto compare = [&](const PerSize& one, const PerSize& other) {
        ASSERT_EQ(one.size(), other.size());
        for (std::size_t k = 0; k < one.size(); ++k) {
            most = std::max(most, std::abs(one[k] / other[k] - 1));
        }
    };
    for (std::size_t l = 0; l < a.layers.size(); ++l) {
        compare(a.layers[l].forward_ns, b.layers[l].forward_ns);
        compare(a.layers[l].recompute_ns, b.layers[l].recompute_ns);
        compare(a.layers[l].graph_forward_ns, b.layers[l].graph_forward_ns);
        compare(a.layers[l].backward_ns, b.layers[l].backward_ns);
        compare(a.layers[l].backward_weight_ns, b.layers[l].backward_weight_ns);
    }
    compare(a.loss_ns, b.loss_ns);
    compare(a.loss_batch.ns, b.loss_batch.ns);
    return most;
}

double step_of(const Profile& profile, const PipelineOptions& options) {
    return static_cast<double>(simulate(CheckedProfile(profile), options).step_time.count());
}

// The tasks' times depend on how many lanes are busy beside them; the layers' times that come back do not.
TEST(Calibration, FindsTheCostsOfTheMachineThatRan) {
    const Change first{1.3, 1.4, 0.8, 0.8};
    const Change second{0.9, 1.2, 1.5, 1.5};
    const Profile machine = changed(four_layers(), {first, first, second, second}, 1.25);
    const PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::except_last);
    const Profile found = calibrated(four_layers(), options, run_of(machine, options));
    EXPECT_LT(difference(found, machine), 1e-5);  // times are rounded to ns
    EXPECT_EQ(found.layers[3].output_bytes, machine.layers[3].output_bytes);
    EXPECT_TRUE(found.from_trace);
    EXPECT_EQ(found.co_running_lanes, 2);
}

TEST(Calibration, PredictsOtherPipelines) {
    const Change first{1.3, 1.4, 0.8, 0.8};
    const Change second{0.9, 1.2, 1.5, 1.5};
    const Profile machine = changed(four_layers(), {first, first, second, second});
    const PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::except_last);
    const Profile found = calibrated(four_layers(), options, run_of(machine, options));
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{1, 3}, {3, 1}, {1, 2, 1}}) {
            PipelineOptions other = on_two_lanes(balance, Checkpoint::never, schedule);
            other.chunks = 12;
            EXPECT_NEAR(step_of(found, other) / step_of(machine, other), 1, 1e-5) << to_string(other.balance);
        }
    }
}

TEST(Calibration, TellsTheHalvesOfASplitBackwardApart) {
    const Change change{1, 1, 0.7, 1.6};
    const Profile machine = changed(four_layers(), {change, change, change, change});
    const PipelineOptions options = on_two_lanes({1, 3}, Checkpoint::always, Schedule::zero_bubble_h1);
    EXPECT_LT(difference(calibrated(four_layers(), options, run_of(machine, options)), machine), 1e-5);
    // A profile without halves gets them.
    Profile whole = four_layers();
    for (LayerProfile& layer : whole.layers) {
        layer.backward_weight_ns.clear();
    }
    const Profile found = calibrated(whole, options, run_of(machine, options));
    EXPECT_NEAR(step_of(found, options) / step_of(machine, options), 1, 1e-5);
}

// Each run alone only knows sums of layers.
TEST(Calibration, TellsLayersApartThatRunsCutDifferently) {
    const Profile machine = changed(four_layers(), {{2, 2, 2, 2}, {0.7, 0.7, 0.7, 0.7}, {1.5, 1.5, 1.5, 1.5}, {}});
    std::vector<PipelineOptions> options;
    std::vector<Timeline> measured;
    for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{1, 3}, {2, 2}, {3, 1}}) {
        options.push_back(on_two_lanes(balance, Checkpoint::except_last));
        measured.push_back(run_of(machine, options.back()));
    }
    const std::vector<CalibrationRun> runs{
        {options[0], measured[0], kAllSteps}, {options[1], measured[1], kAllSteps}, {options[2], measured[2], {0}}};
    EXPECT_LT(difference(calibrated_profile(four_layers(), runs), machine), 1e-3);
}

TEST(Calibration, TakesTheMeanOfRunsThatDisagree) {
    const Change slower{1.21, 1.21, 1.21, 1.21};
    const PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::except_last);
    const Timeline one = run_of(four_layers(), options);
    const Timeline other = run_of(changed(four_layers(), {slower, slower, slower, slower}), options);
    const std::array runs{CalibrationRun{options, one, kAllSteps}, CalibrationRun{options, other, kAllSteps}};
    EXPECT_NEAR(calibrated_profile(four_layers(), runs)->layers[0].forward_ns[0], 1.1e6, 100);
}

/// The layers' times of size k multiplied by factors[k].
Profile grown(Profile profile, const std::vector<double>& factors) {
    const auto scale = [&](PerSize& values) {
        for (std::size_t k = 0; k < values.size(); ++k) {
            values[k] *= factors[k];
        }
    };
    for (LayerProfile& layer : profile.layers) {
        for (PerSize* times : {&layer.forward_ns, &layer.recompute_ns, &layer.graph_forward_ns, &layer.backward_ns,
                               &layer.backward_weight_ns}) {
            scale(*times);
        }
    }
    return profile;
}

/// Runs of the micro-batch sizes on that machine.
Profile calibrated_with_sizes(const Profile& earlier, const Profile& machine, const std::vector<std::int64_t>& sizes) {
    std::vector<PipelineOptions> options;
    std::vector<Timeline> measured;
    for (const std::int64_t size : sizes) {
        options.push_back(on_two_lanes({2, 2}, Checkpoint::except_last));
        options.back().chunks = 48 / size;
        measured.push_back(run_of(machine, options.back()));
    }
    std::vector<CalibrationRun> runs;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        runs.push_back({options[k], measured[k], kAllSteps});
    }
    return calibrated_profile(CheckedProfile(earlier), runs);
}

TEST(Calibration, FindsHowCostsGrowWithTheSize) {
    const Profile machine = grown(four_layers(), {0.8, 1.3});
    EXPECT_LT(difference(calibrated_with_sizes(four_layers(), machine, {4, 8}), machine), 1e-5);
    // All sizes follow a single run.
    EXPECT_NEAR(calibrated_with_sizes(four_layers(), machine, {8}).layers[0].forward_ns[0], 1.3e6, 100);
}

TEST(Calibration, InterpolatesSizesThatDidNotRun) {
    Profile earlier = four_layers();
    earlier.samples = {1, 2, 4, 8, 16};
    earlier.loss_ns = {1e5, 1e5, 2e5, 3e5, 6e5};
    for (LayerProfile& layer : earlier.layers) {
        for (PerSize* times : {&layer.forward_ns, &layer.recompute_ns, &layer.graph_forward_ns, &layer.backward_ns,
                               &layer.backward_weight_ns, &layer.output_bytes}) {
            times->assign({times->front() / 4, times->front() / 2, times->front(), times->back(), 2 * times->back()});
        }
    }
    const Profile machine = grown(earlier, {9, 0.8, 9, 1.25, 9});
    const Profile expected = grown(earlier, {0.8, 0.8, 1, 1.25, 1.25});  // 4 lies halfway from 2 to 8
    EXPECT_LT(difference(calibrated_with_sizes(earlier, machine, {2, 8}), expected), 1e-5);
}

// Forwards that keep a graph tell the time of those, and not of the forwards that keep none.
TEST(Calibration, TellsForwardsThatKeepAGraphApart) {
    const Change change{0.6, 1.7, 1.2, 1.2};
    const Profile machine = changed(four_layers(), {change, change, change, change});
    const PipelineOptions never = on_two_lanes({2, 2}, Checkpoint::never);
    PipelineOptions always = on_two_lanes({2, 2}, Checkpoint::always);
    const Timeline first = run_of(machine, never);
    for (const std::int64_t chunks : {6, 12}) {  // of the same and of another size
        always.chunks = chunks;
        const Timeline second = run_of(machine, always);
        const std::array runs{CalibrationRun{never, first, kAllSteps}, CalibrationRun{always, second, kAllSteps}};
        EXPECT_LT(difference(calibrated_profile(four_layers(), runs), machine), 1e-5);
    }
}

TEST(Calibration, LetsRecomputesFollowForwardsUnlessTheyRan) {
    const Change change{9, 1.5, 1, 1};  // of forwards that keep no graph, which did not run, and of those that do
    const Profile machine = changed(four_layers(), {change, change, change, change});
    const PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::never);
    const Profile found = calibrated(four_layers(), options, run_of(machine, options));
    EXPECT_NEAR(found.layers[2].recompute_ns[0], 1.5 * four_layers().layers[2].recompute_ns[0], 10);
}

/// The engine's record of three steps where each task starts that much later than it could.
Timeline run_with_hand_offs(const Profile& machine, const PipelineOptions& options, std::int64_t hand_off) {
    const TaskCosts costs(machine, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    std::vector<std::int64_t> lengths;
    for (const Task& task : graph.tasks()) {
        lengths.push_back(costs.duration(task) + (is_copy(task.key.kind) ? 0 : hand_off));
    }
    std::vector<std::int64_t> ends(lengths.size());
    TaskClock(graph).run(std::span<const std::int64_t>(lengths), ends);
    Timeline measured{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
    for (const std::int32_t step : kAllSteps) {
        for (TaskIndex task = 0; task < ends.size(); ++task) {
            TaskKey key = graph.tasks()[task].key;
            key.step = step;
            const Nanoseconds end{step * 1'000'000'000LL + ends[task]};
            measured.slices.push_back(
                {key, graph.tasks()[task].lane, end - Nanoseconds{costs.duration(graph.tasks()[task])}, end, 0});
        }
    }
    sort_slices(measured);
    return measured;
}

// A lane's thread that wakes up late delays every pipeline, not only the one that was recorded.
TEST(Calibration, CountsHandOffsBetweenTasks) {
    constexpr std::int64_t kHandOff = 400'000;
    Profile machine = four_layers();
    machine.co_running_slowdown.clear();
    machine.host_cores = 0;
    PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::except_last);
    options.hardware.host_cores = 0;
    const Timeline measured = run_with_hand_offs(machine, options, kHandOff);
    const Profile found = calibrated(machine, options, measured);
    Timeline torn = measured;  // the last step lacks a task
    torn.slices.pop_back();
    EXPECT_NEAR(step_of(calibrated(machine, options, torn), options) / step_of(found, options), 1, 0.005);
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        PipelineOptions other = options;
        other.schedule = schedule;
        const Timeline real = run_with_hand_offs(machine, other, kHandOff);
        const auto in_step = [](const Slice& slice) { return slice.key.step == 0; };
        std::int64_t end = 0;
        for (const Slice& slice : real.slices) {
            end = in_step(slice) ? std::max(end, slice.end.count()) : end;
        }
        EXPECT_NEAR(step_of(found, other) / static_cast<double>(end), 1, 0.01) << to_string(schedule);
        EXPECT_LT(step_of(machine, other) / static_cast<double>(end), 0.96) << to_string(schedule);
    }
}

TEST(Calibration, MeasuresTheOptimizerOfAllLanes) {
    const PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::never);
    Timeline measured = run_of(four_layers(), options);
    for (int lane = 0; lane < 2; ++lane) {
        for (int step = 0; step < kSteps; ++step) {
            const Nanoseconds start = std::chrono::seconds(1 + step);
            measured.slices.push_back({{step, TaskKind::optimizer, lane, -1, -1},
                                       LaneId{lane},
                                       start,
                                       start + Nanoseconds{30'000 * (lane + 1)},
                                       0});
        }
    }
    sort_slices(measured);
    // 30 us of both lanes, then 30 us of one alone, which is a fifth faster than the profile's times.
    EXPECT_NEAR(calibrated(four_layers(), options, measured).optimizer_ns, 60'000 + 36'000, 1);
}

TEST(Calibration, RefusesARunThatSaysNothingAboutAPartition) {
    const PipelineOptions options = on_two_lanes({2, 2}, Checkpoint::never);
    Timeline measured = run_of(four_layers(), options);
    std::erase_if(measured.slices,
                  [](const Slice& slice) { return slice.key.kind == TaskKind::backward && slice.key.partition == 1; });
    EXPECT_THAT(thrown<Error>([&] { calibrated(four_layers(), options, measured); }),
                AllOf(HasSubstr("holds no backward of partition 1"), HasSubstr("record whole")));
    measured = run_of(four_layers(), options);
    measured.lanes[1].device = "cuda:0";
    EXPECT_THAT(thrown<Error>([&] { calibrated(four_layers(), options, measured); }),
                HasSubstr("has a lane on cuda:0"));
    measured = run_of(four_layers(), options);
    measured.slices.back().key.micro_batch = 6;
    EXPECT_THAT(thrown<Error>([&] { calibrated(four_layers(), options, measured); }),
                AllOf(HasSubstr("2 partitions and 6 micro-batches"), HasSubstr("damaged")));
}

TEST(Calibration, SaysWhyProfilesAreNotOfOneModel) {
    const Profile earlier = four_layers();
    EXPECT_EQ(why_not_of_one_model(earlier, earlier), "");
    Profile other = earlier;
    other.model = "other";
    EXPECT_EQ(why_not_of_one_model(earlier, other), "is of the model other, and the earlier profile of m");
    other = earlier;
    other.layers.pop_back();
    EXPECT_EQ(why_not_of_one_model(earlier, other), "has 3 layers, and the earlier profile 4");
    other = earlier;
    other.layers[1].name = "relu";
    EXPECT_EQ(why_not_of_one_model(earlier, other), "has a layer 1 named relu, and the earlier profile layer 1");
    other = earlier;
    other.dtype = "bfloat16";
    EXPECT_EQ(why_not_of_one_model(earlier, other), "is of bfloat16, and the earlier profile of float32");
}
}  // namespace
}  // namespace pipescope
