#include "simulator/memory/memory_model.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
/// A typical linear layer: keeps its input, saves nothing else, has 10 bytes of output per sample.
LayerProfile linear(Bytes parameters, double output = 10) {
    LayerProfile layer = layer_of(1000, 2000, output);
    layer.parameter_bytes = layer.gradient_bytes = parameters;
    return layer;
}

PipelineOptions two_lanes(std::int64_t m, Checkpoint checkpoint) {
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = m;
    options.checkpoint = checkpoint;
    return options;
}

Profile two_linears() {
    Profile profile = profile_of({linear(100), linear(200, 4)});
    profile.input_bytes = {6};
    return profile;
}

TEST(MemoryModel, HoldsParametersGradientsAndOptimizerState) {
    Profile profile = two_linears();
    profile.layers[1].buffer_bytes = 7;
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.optimizer = "adam";
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    EXPECT_EQ(simulation.lanes[0].peak[MemoryCategory::parameters], 100);
    EXPECT_EQ(simulation.lanes[1].peak[MemoryCategory::parameters], 207);
    EXPECT_EQ(simulation.lanes[1].peak[MemoryCategory::gradients], 200);
    EXPECT_EQ(simulation.lanes[1].peak[MemoryCategory::optimizer], 400);
    options.optimizer = "0.5";
    EXPECT_EQ(simulate(CheckedProfile(profile), options).lanes[1].peak[MemoryCategory::optimizer], 100);
}

TEST(MemoryModel, HoldsABucketOfGradientsWhileReplicasSumThem) {
    PipelineOptions options = two_lanes(2, Checkpoint::never);
    options.replicas = 2;
    const Bytes bucket = Bytes{25} << 20;
    Profile profile = two_linears();
    profile.layers[0] = linear(1000);
    profile.layers[1] = linear(2 * bucket);
    options.hardware.devices = {"cpu", "cpu"};
    const Simulation host = simulate(CheckedProfile(profile), options);
    EXPECT_EQ(host.lanes[0].peak_bytes, 2 * 1000 + 1000 + 500);  // parameters, gradients, bucket, what arrives
    EXPECT_EQ(host.lanes[1].peak_bytes, 2 * 2 * bucket + bucket + bucket / 2);
    EXPECT_EQ(host.lanes[1].peak[MemoryCategory::transient], bucket + bucket / 2);
    options.hardware.devices = {"gpu:0", "gpu:1"};
    EXPECT_LT(simulate(CheckedProfile(profile), options).lanes[1].peak_bytes, 2 * 2 * bucket + 1000);
}

// A forward without a graph makes what it would save, and frees it at the layer's end. Each lane has two partitions of
// one layer, as in a V, so that a forward can run while the lane holds other micro-batches' graphs.
TEST(MemoryModel, ACheckpointedForwardHoldsTheRunningLayersSavedTensors) {
    constexpr Bytes kSaved = 1000;
    constexpr Bytes kTransient = 70;
    constexpr Bytes kOutput = 10;
    Profile profile = profile_of({linear(0), linear(0), linear(0), linear(0)});
    profile.input_bytes = {10};
    for (LayerProfile& layer : profile.layers) {
        layer.saved_bytes = {kSaved};
        layer.transient_bytes = {kTransient};
    }
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.chunks = options.batch = 6;
    options.checkpoint = Checkpoint::always;
    options.hardware.devices = {"gpu:0", "gpu:1"};
    for (const Schedule::Name name : {Schedule::v_half, Schedule::v_min, Schedule::zero_bubble_v}) {
        options.schedule = name;
        options.placement = placement_of(options.schedule, 4, 2);
        const Simulation simulation = simulate(CheckedProfile(profile), options);
        int forwards = 0;
        for (const Slice& slice : simulation.timeline.slices) {
            if (slice.key.kind != TaskKind::forward) {
                continue;
            }
            Bytes peak = 0;
            Bytes held = 0;  // at the forward's end: its output, and what the lane held before
            for (const MemorySample& sample : simulation.memory) {
                if (sample.lane == slice.lane && sample.time > slice.start && sample.time <= slice.end) {
                    peak = std::max(peak, sample.peak);
                    held = sample.allocated;
                }
            }
            EXPECT_GE(peak, held + kSaved + kTransient - kOutput) << to_string(options.schedule);
            ++forwards;
        }
        EXPECT_EQ(forwards, 24);
    }
}

/// linear (10 bytes of output), a layer that only stashes its output, a layer that keeps its input, and one that pops.
Profile kept_stash() {
    Profile profile = profile_of({linear(0), linear(0), linear(0), linear(0)});
    profile.layers[1].aliases_input = true;
    profile.layers[1].keeps_input = false;
    profile.layers[1].stash["x"] = {10};
    profile.layers[3].keeps_input = false;
    profile.layers[3].pop = {"x"};
    profile.layers[3].passes_gradient = true;  // adds the two
    return profile;
}

TEST(MemoryModel, CountsAStashThatTheGraphKeepsAnywayOnce) {
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({4});
    const Bytes with = simulate(kept_stash(), options).lanes[0].peak_bytes;
    Profile without = kept_stash();
    without.layers[1].stash.clear();
    without.layers[3].pop.clear();
    EXPECT_EQ(with, simulate(CheckedProfile(without), options).lanes[0].peak_bytes);

    Profile not_kept = kept_stash();
    not_kept.layers[2].keeps_input = false;
    without.layers[2].keeps_input = false;
    EXPECT_EQ(simulate(CheckedProfile(not_kept), options).lanes[0].peak_bytes,
              simulate(CheckedProfile(without), options).lanes[0].peak_bytes + 10)
        << "else it lives because it is stashed";
}

TEST(MemoryModel, ChargesAKeptStashToTheLaneThatPopsItWhereLanesShareMemory) {
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({3, 1});
    const auto saved_on_lane_0 = [&](const std::string& other) {
        options.hardware.devices = {"cpu", other};
        Bytes most = 0;
        for (const MemorySample& sample : simulate(kept_stash(), options).memory) {
            if (sample.lane == LaneId{0}) {
                most = std::max(most, sample.composition[MemoryCategory::saved]);
            }
        }
        return most;
    };
    EXPECT_EQ(saved_on_lane_0("device 1") - saved_on_lane_0("cpu"), 10);
}

/// Stashes its output of 10 bytes; another lane concatenates it with its own 10 bytes to an output of 20.
Profile concatenation(bool passes_gradient) {
    Profile profile = profile_of({linear(0), linear(0), linear(0), linear(0), linear(0)});
    for (LayerProfile& layer : profile.layers) {
        layer.keeps_input = false;
    }
    profile.layers[1].stash["x"] = {10};
    profile.layers[3].pop = {"x"};
    profile.layers[3].output_bytes = {20};
    profile.layers[3].passes_gradient = passes_gradient;
    return profile;
}

Bytes most_skip_bytes(const Simulation& simulation, LaneId lane) {
    Bytes most = 0;
    for (const MemorySample& sample : simulation.memory) {
        most = std::max(most, sample.lane == lane ? sample.composition[MemoryCategory::skip] : 0);
    }
    return most;
}

TEST(MemoryModel, ChargesTheWholeStorageOfASkipsGradientThatIsAView) {
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({3, 2});
    options.hardware.devices = {"cpu", "cpu"};
    EXPECT_EQ(most_skip_bytes(simulate(concatenation(false), options), LaneId{0}), 10);
    EXPECT_EQ(most_skip_bytes(simulate(concatenation(true), options), LaneId{0}), 20) << "the concatenation's gradient";
    options.hardware.devices = {"cpu", "device 1"};
    EXPECT_EQ(most_skip_bytes(simulate(concatenation(true), options), LaneId{0}), 10) << "a copy holds what it copies";
}

TEST(MemoryModel, LeavesAnOutputsGradientWhereASkipsGradientHoldsItToo) {
    // Cut before the concatenation: both its gradients go to lane 0 in one storage of 40, which is charged once and
    // lives until layer 1 has used the skip's. The peak is in layer 2 or layer 1.
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({3, 2});
    options.hardware.devices = {"cpu", "cpu"};
    for (const std::size_t layer : {std::size_t{1}, std::size_t{2}}) {
        Profile profile = concatenation(true);
        profile.layers[3].output_bytes = {40};  // so that no forward is the peak
        profile.layers[layer].transient_bytes = {100};
        const Simulation simulation = simulate(CheckedProfile(profile), options);
        EXPECT_EQ(simulation.lanes[0].peak[MemoryCategory::skip], 40);
        EXPECT_EQ(simulation.lanes[0].peak[MemoryCategory::copy], 0)
            << "neither charged twice nor let go of what is not charged";
    }
}

TEST(MemoryModel, KeepsAGradientAsLongAsAViewOfItIsNeededInThePartition) {
    // One lane, one micro-batch. Every output is 10, except for the concatenation's 20. In the backward of layer 1,
    // these are live: the gradients of its output and input, 10 each, and that of the skip: 10, or the 20 of the
    // concatenation's gradient if it is a view. The skip and the gradient of the model's output are gone.
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({5});
    options.hardware.devices = {"cpu"};
    Profile views = concatenation(true);
    Profile own = concatenation(false);
    for (Profile* profile : {&views, &own}) {
        profile->layers[1].transient_bytes = {100};  // so that it is the peak
    }
    EXPECT_EQ(simulate(CheckedProfile(own), options).lanes[0].peak_bytes, 100 + 20 + 10);
    EXPECT_EQ(simulate(CheckedProfile(views), options).lanes[0].peak_bytes, 100 + 20 + 20);
}

TEST(MemoryModel, LetsASkipsGradientGoWhenTheLayerThatStashedItIsThrough) {
    // Lane 0 runs layers 0 to 2. Its peak is in layer 0, after the skip's gradient is freed, or in layer 2.
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({3, 2});
    options.hardware.devices = {"cpu", "cpu"};
    Profile late = concatenation(true);
    Profile early = concatenation(true);
    late.layers[3].output_bytes = early.layers[3].output_bytes = {40};  // so that no forward is the peak
    late.layers[0].transient_bytes = {100};
    early.layers[2].transient_bytes = {100};
    const Simulation at_the_end = simulate(CheckedProfile(late), options);
    EXPECT_EQ(at_the_end.lanes[0].peak[MemoryCategory::skip], 0);
    EXPECT_EQ(simulate(CheckedProfile(early), options).lanes[0].peak[MemoryCategory::skip], 40);
}

/// Skip bytes on the popping lane of a pipeline of two, at the end of that micro-batch's task of that kind.
Bytes skips_behind(const Simulation& simulation, TaskKind kind, std::int32_t micro_batch) {
    for (const MemorySample& sample : simulation.memory) {
        const bool is_task = sample.task == static_cast<std::int64_t>(pack({0, kind, 1, micro_batch, -1}));
        if (sample.lane == LaneId{1} && is_task) {
            return sample.composition[MemoryCategory::skip];
        }
    }
    ADD_FAILURE() << "no such task";
    return -1;
}

TEST(MemoryModel, LetsAPoppedSkipGoWhereNoBackwardNeedsIt) {
    PipelineOptions options = two_lanes(2, Checkpoint::always);
    options.balance = Balance({3, 2});
    options.hardware.devices = {"cpu", "cpu"};
    const auto behind = [&](bool passes_gradient, TaskKind kind, std::int32_t micro_batch) {
        return skips_behind(simulate(concatenation(passes_gradient), options), kind, micro_batch);
    };
    // Micro-batch 0's skip of 10 remains after the recompute of 1, whose own skip is gone, or kept for a product's
    // backward.
    EXPECT_EQ(behind(true, TaskKind::forward, 1), 20) << "both are there to be recomputed from";
    EXPECT_EQ(behind(true, TaskKind::recompute, 1), 10);
    EXPECT_EQ(behind(false, TaskKind::recompute, 1), 20);
    options.checkpoint = Checkpoint::never;
    EXPECT_EQ(behind(true, TaskKind::forward, 1), 0);
    EXPECT_EQ(behind(false, TaskKind::forward, 1), 20);
}

TEST(MemoryModel, HoldsAPoppedSkipAsLongAsTheGraphThatStashedItKeepsIt) {
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({3, 1});
    const auto held_behind_backward = [&](const std::string& other) {
        options.hardware.devices = {"cpu", other};
        const Simulation simulation = simulate(kept_stash(), options);
        Bytes held = -1;  // before the step ends, with lane 0's backward
        for (const MemorySample& sample : simulation.memory) {
            const bool is_before = sample.lane == LaneId{1} && sample.time < simulation.step_time;
            held = is_before ? sample.composition[MemoryCategory::skip] : held;
        }
        return held;
    };
    EXPECT_EQ(held_behind_backward("cpu"), 10) << "lane 0 goes backward later, and its graph holds the storage";
    EXPECT_EQ(held_behind_backward("device 1"), 0) << "a copy of its own";
}

TEST(MemoryModel, LetsWhatArrivesMeetOnlyTheLayersThatAreStillToRun) {
    // Lane 0 runs two layers of 1000 ns and 10 bytes. Lane 1 returns gradients of 10 while lane 0 recomputes.
    Profile profile = profile_of({linear(0), linear(0), linear(0)});
    profile.layers[2].forward_ns = profile.layers[2].recompute_ns = {10};
    profile.layers[2].backward_ns = {1500};  // in the second layer of lane 0's recompute
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({2, 1});
    options.hardware.devices = {"cpu", "cpu"};
    const auto peak = [&](std::size_t layer) {
        Profile needy = profile;
        needy.layers[layer].transient_bytes = {1000};
        needy.layers[layer].backward_ns = {1};
        return simulate(CheckedProfile(needy), options).lanes[0].peak_bytes;
    };
    // The transient bytes of layer 0 coincide with its output of 10, in backward also with layer 1's gradient. Those of
    // layer 1 coincide with input, output and the received gradient.
    EXPECT_EQ(peak(1), 1000 + 10 + 10 + 10);
    EXPECT_EQ(peak(0), 1000 + 10);
}

TEST(MemoryModel, CountsATwoLanePipelineByHand) {
    // m = 3, sizes per micro-batch: input 6, T0 10, T1 4. Lane 0 holds the mini-batch, 18, on its own device.
    const Simulation simulation = simulate(two_linears(), two_lanes(3, Checkpoint::never));
    // Lane 0: 200 + 18, plus its output of 10 during a forward, or a gradient of 10 during a backward.
    EXPECT_EQ(simulation.lanes[0].peak_bytes, 228);
    // Lane 1: 400, three inputs of 10 and three outputs of 4. The loss then holds the outputs and the gathered one, or
    // the gathered one and its gradient: 12 + 12. The first backward has three inputs, the gradient of 12, and the
    // input's gradient of 10, before anything is freed.
    EXPECT_EQ(simulation.lanes[1].peak_bytes, 400 + 30 + 24);
    EXPECT_EQ(simulation.lanes[1].peak[MemoryCategory::boundary], 30);
    EXPECT_EQ(simulation.lanes[1].peak[MemoryCategory::output], 24);
}

TEST(MemoryModel, CountsWhatTheLossNeedsForItself) {
    Profile profile = two_linears();
    profile.loss_transient_bytes = {9};  // of the mini-batch, 27
    EXPECT_EQ(simulate(CheckedProfile(profile), two_lanes(3, Checkpoint::never)).lanes[1].peak_bytes, 454 + 27);
}

TEST(MemoryModel, SharesTheHandedOverStorageOnTheHost) {
    PipelineOptions options = two_lanes(3, Checkpoint::never);
    options.hardware.devices = {"cpu", "cpu"};
    const Simulation simulation = simulate(two_linears(), options);
    EXPECT_EQ(simulation.lanes[0].peak_bytes, 210) << "the mini-batch is the caller's";
    EXPECT_EQ(simulation.lanes[1].peak_bytes, 454);
    for (const MemorySample& sample : simulation.memory) {
        if (sample.lane == LaneId{0}) {
            EXPECT_LE(sample.allocated, 210);
        }
    }
}

/// Two layers per partition, each of which saves 50 bytes per sample: the case for checkpointing.
Profile saving_layers() {
    Profile profile = two_linears();
    profile.layers = {linear(0), linear(0), linear(0), linear(0)};
    for (LayerProfile& layer : profile.layers) {
        layer.saved_bytes = {50};
    }
    return profile;
}

TEST(MemoryModel, KeepsTheGraphOfWhatIsNotCheckpointed) {
    PipelineOptions options = two_lanes(4, Checkpoint::never);
    options.balance = Balance({2, 2});
    const auto peak = [&](Checkpoint mode) {
        options.checkpoint = mode;
        return simulate(saving_layers(), options).lanes[1].peak_bytes;
    };
    // One graph is 2 * 50 saved bytes and 10, the first layer's output, which the second one keeps as its input. At the
    // loss there are four inputs of 10, the graphs, and 40 + 40 of outputs and gathered output, or the latter and its
    // gradient.
    EXPECT_EQ(peak(Checkpoint::never), 40 + 4 * 110 + 80);
    EXPECT_EQ(peak(Checkpoint::except_last), 40 + 110 + 80);
    // Nothing is kept at the loss. Recompute peaks in its second layer: input and output of 10 and twice 50 saved,
    // beside the gradient of 40.
    EXPECT_EQ(peak(Checkpoint::always), 40 + 40 + 120);
}

TEST(MemoryModel, PeaksWhereALayerNeedsMost) {
    Profile profile = saving_layers();
    PipelineOptions options = two_lanes(2, Checkpoint::never);
    options.balance = Balance({2, 2});
    profile.layers[2].transient_bytes = {1000};
    const SimulatedLane lane = simulate(CheckedProfile(profile), options).lanes[1];
    // Backward of layer 2, the lower one of lane 1, in micro-batch 1: layer 3 has freed its 50 and T2.
    //   held: 2 inputs of 10, graphs 110 + 50, gradient of the whole output 20; work: 10 above, 10 below, 1000
    // Forward of layer 2 in micro-batch 1 needs less: of the second graph, only its own 50 exist, plus outputs of 10 +
    // 10.
    EXPECT_EQ(lane.peak_bytes, 20 + 160 + 20 + 1020);
    EXPECT_EQ(lane.peak[MemoryCategory::transient], 1020);
    EXPECT_EQ(lane.peak[MemoryCategory::saved], 160);
}

TEST(MemoryModel, ChargesAKeptOutputOnceWhereStorageIsShared) {
    Profile profile = two_linears();
    profile.layers[0].keeps_output = true;  // like a relu
    PipelineOptions options = two_lanes(2, Checkpoint::never);
    options.hardware.devices = {"cpu", "cpu"};
    const Simulation shared = simulate(CheckedProfile(profile), options);
    EXPECT_EQ(shared.lanes[0].peak[MemoryCategory::saved], 0) << "charged to lane 1 as its input";
    options.hardware.devices.clear();
    const Simulation apart = simulate(CheckedProfile(profile), options);
    EXPECT_GT(apart.lanes[0].peak[MemoryCategory::saved], 0);
    EXPECT_GT(apart.lanes[0].peak_bytes - 12, shared.lanes[0].peak_bytes) << "12 is the mini-batch";
}

TEST(MemoryModel, LetsGoOfAnInputThatNoLayerKept) {
    Profile profile = saving_layers();
    PipelineOptions options = two_lanes(4, Checkpoint::never);
    options.balance = Balance({2, 2});
    const auto boundary = [&](Checkpoint mode) {
        options.checkpoint = mode;
        return simulate(CheckedProfile(profile), options).lanes[1].peak[MemoryCategory::boundary];
    };
    EXPECT_EQ(boundary(Checkpoint::never), 40);
    profile.layers[2].keeps_input = false;
    EXPECT_EQ(boundary(Checkpoint::never), 0) << "the peak is at the loss";
    EXPECT_EQ(boundary(Checkpoint::except_last), 30) << "those to recompute from";
}

TEST(MemoryModel, NeverHoldsAnInputThatWentBesideWhatTheTaskLeaves) {
    // Lane 1 receives 100 and frees it before its second layer saves 60. Its forward holds 110 at most, its backward
    // the gradients of 10 and 100 in the first layer.
    Profile profile = profile_of({linear(0, 100), linear(0), linear(0)});
    profile.layers[1].keeps_input = false;
    profile.layers[2].saved_bytes = {60};
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({1, 2});
    EXPECT_EQ(simulate(CheckedProfile(profile), options).lanes[1].peak_bytes, 10 + 100);
}

/// {linear(x), x}, then a layer that joins the two: outputs of 10, 100 and 5. Only what depends on parameters needs a
/// gradient.
Profile passed_data() {
    using Role = TapeBlock::Role;
    Profile profile = profile_of({linear(1), linear(0, 5)});
    LayerTape half;
    half.blocks = {{Role::passed, 100}, {Role::output, 10}, {Role::output_gradient, 10}};
    half.forward = half.recompute = half.checkpointed_forward = {2};
    half.outputs = {2, 1};
    half.output_gradients = {3, 0};
    LayerTape join;
    join.blocks = {{Role::input, 10},
                   {Role::input, 100},
                   {Role::output, 5},
                   {Role::output_gradient, 5},
                   {Role::input_gradient, 10}};
    join.forward = join.recompute = join.checkpointed_forward = {3};
    join.backward = {5};
    join.input_gradients = {5, 0};
    LayerTape all = join;
    all.blocks.push_back({Role::input_gradient, 100});
    all.backward = {5, 6};
    all.input_gradients = {5, 6};
    join.all_gradients = {all};
    profile.layers[0].tape = {half};
    profile.layers[1].tape = {join};
    return profile;
}

TEST(MemoryModel, CountsGradientsOfDataBehindACheckpointedPartition) {
    // The tape of all gradients adds this to the peak of the partition above.
    const auto more = [](Checkpoint checkpoint, Profile profile) {
        PipelineOptions options = two_lanes(1, checkpoint);
        options.hardware.devices = {"cpu", "cpu"};
        const Bytes with = simulate(CheckedProfile(profile), options).lanes[1].peak_bytes;
        profile.layers[1].tape[0].all_gradients.clear();
        return with - simulate(CheckedProfile(profile), options).lanes[1].peak_bytes;
    };
    Profile profile = passed_data();
    EXPECT_EQ(more(Checkpoint::never, profile), 0);
    EXPECT_EQ(more(Checkpoint::always, profile), 100 - 5) << "without it, the loss holds 5 more than the backward";
    profile.layers[0].gradient_bytes = 0;
    EXPECT_EQ(more(Checkpoint::always, profile), 0) << "a frozen partition's outputs need none";
}

TEST(MemoryModel, PilesUpOutputsBehindASlowLink) {
    PipelineOptions options = two_lanes(4, Checkpoint::never);
    options.hardware.link.latency_ns = 1'000'000;
    const Simulation simulation = simulate(two_linears(), options);
    EXPECT_EQ(simulation.lanes[0].peak[MemoryCategory::copy], 30) << "three outputs wait while the fourth is made";
}

TEST(MemoryModel, SaysWhetherTheLimitIsKept) {
    PipelineOptions options = two_lanes(3, Checkpoint::never);
    options.hardware.memory_limit = 454;
    EXPECT_TRUE(simulate(two_linears(), options).feasible);
    options.hardware.memory_limit = 453;
    EXPECT_FALSE(simulate(two_linears(), options).feasible);
}

PipelineOptions both_inputs_then_both_weights() {
    PipelineOptions options = two_lanes(2, Checkpoint::never);
    options.schedule = Schedule::from_csv("late", "0F0,0F1,,,0I0,0I1,0W0,0W1\n,1F0,1F1,1I0,1I1,1W0,1W1,\n");
    return options;
}

TEST(MemoryModel, EstimatesWhatASplitBackwardKeepsForTheWeights) {
    // Lane 1 keeps its inputs of 10 and the gradients of its outputs, 4, and makes the input's gradient of 10.
    const Simulation simulation = simulate(two_linears(), both_inputs_then_both_weights());
    EXPECT_EQ(simulation.lanes[1].peak_bytes, 400 + 2 * (10 + 4) + 10);
    // Lane 0 holds the mini-batch, and keeps the gradients that arrived.
    EXPECT_EQ(simulation.lanes[0].peak_bytes, 200 + 2 * 6 + 2 * 10);
}

TEST(MemoryModel, KeepsNothingForWeightsOfALayerWithoutASecondHalf) {
    Profile profile = two_linears();
    profile.layers[1].backward_weight_ns = {0};
    // Lane 1 frees an input and its output's gradient in each first half. At its peak it has made both losses'
    // gradients.
    EXPECT_EQ(simulate(CheckedProfile(profile), both_inputs_then_both_weights()).lanes[1].peak_bytes,
              400 + 2 * (10 + 4) + 10);
    PipelineOptions options = both_inputs_then_both_weights();
    options.schedule = Schedule::from_csv("late", "0F0,,0F1,,,0I0,0I1,0W0,0W1\n,1F0,1I0,1F1,1I1,1W0,1W1,,\n");
    EXPECT_EQ(simulate(CheckedProfile(profile), options).lanes[1].peak_bytes, 400 + (10 + 4) + 10 + 10)
        << "the next input has arrived";
    EXPECT_EQ(simulate(two_linears(), options).lanes[1].peak_bytes, 400 + 2 * (10 + 4) + 10);
}

// Both halves of the recorded layer: the first frees 50 saved bytes and makes 7 for the second, which takes 90 besides.
TEST(MemoryModel, PlaysTheRecordedHalvesOfASplitBackward) {
    using enum TapeBlock::Role;
    Profile profile = two_linears();
    LayerTape top;
    top.blocks = {{input, 10}, {output, 4}, {own, 50}, {output_gradient, 4}, {input_gradient, 10}, {own, 7}, {own, 90}};
    top.forward = top.recompute = {3, 2};
    top.checkpointed_forward = {2};
    top.backward = {5, -3, -1, -4};
    LayerTape halves = top;
    halves.backward = {6, 5, -3, -4};
    halves.backward_weight = {7, -7, -6, -1};
    top.halves = {halves};
    LayerTape bottom;
    bottom.blocks = {{input, 6}, {output, 10}, {output_gradient, 10}};
    bottom.forward = bottom.recompute = bottom.checkpointed_forward = {2};
    bottom.backward = {-3};
    profile.layers[0].gradient_bytes = 0;
    profile.layers[0].backward_ns = {500};  // over before the next gradient arrives
    profile.layers[0].tape = {bottom};
    profile.layers[1].tape = {top};
    const Simulation simulation = simulate(CheckedProfile(profile), both_inputs_then_both_weights());
    EXPECT_EQ(simulation.lanes[0].peak_bytes, 100 + 2 * 6 + 10) << "its tape frees the gradient in the first half";
    // Before the first backward lane 1 holds two inputs, graphs and gradients. The first second half takes 90.
    EXPECT_EQ(simulation.lanes[1].peak_bytes, 400 + 2 * (10 + 50 + 4) + 7 + 10);
    profile.layers[1].tape[0].halves[0].blocks[6].bytes = 900;
    EXPECT_EQ(simulate(CheckedProfile(profile), both_inputs_then_both_weights()).lanes[1].peak_bytes,
              400 + 2 * (10 + 7) + 900);
    profile.layers[1].tape[0].halves.clear();  // as estimated: the graph and the gradient stay
    EXPECT_EQ(simulate(CheckedProfile(profile), both_inputs_then_both_weights()).lanes[1].peak_bytes,
              400 + 2 * (10 + 50 + 4) + 10);
}

TEST(MemoryModel, FreesAllItAllocatedAndNeverExceedsItsPeak) {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        const std::size_t layers = 2 + random() % 7;
        Profile drawn = random_profile(random, layers, true);
        if (round % 2 != 0) {
            drawn = with_readers(std::move(drawn), random);
        }
        const CheckedProfile profile(std::move(drawn));
        PipelineOptions options;
        options.balance = Balance({1, static_cast<std::int64_t>(layers - 1)});
        options.chunks = 2 * static_cast<std::int64_t>(1 + random() % 4);
        options.batch = options.chunks + static_cast<std::int64_t>(random() % 5);
        options.checkpoint = static_cast<Checkpoint>(random() % 3);
        if (random() % 2 == 0) {
            options.hardware.devices = {"cpu", "cpu"};
        }
        options.hardware.link = {static_cast<double>(random() % 2) * 1e8, static_cast<double>(random() % 2) * 300};
        if (layers >= 4 && random() % 3 == 0) {
            options.balance = Balance({1, 1, 1, static_cast<std::int64_t>(layers - 3)});
            options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
            options.schedule = random() % 2 == 0 ? Schedule::interleaved_1f1b : Schedule::gpipe;
            if (round % 3 == 0) {
                options.placement = {LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}};
                options.schedule = Schedule::zero_bubble_v;
            }
        } else if (random() % 2 == 0) {
            options.schedule = round % 3 == 0 ? Schedule::zero_bubble_h1 : Schedule::one_f_one_b;
        }
        const Simulation simulation = simulate(profile, options);
        for (std::size_t lane = 0; lane < 2; ++lane) {
            Bytes first = -1;
            Bytes last = -1;
            Bytes highest = 0;
            for (const MemorySample& sample : simulation.memory) {
                if (sample.lane.index() == lane) {
                    first = first < 0 ? sample.allocated : first;
                    last = sample.allocated;
                    highest = std::max(highest, sample.peak);
                    EXPECT_GE(sample.peak, sample.allocated);
                    EXPECT_GE(sample.allocated, first) << "nothing is freed twice";
                }
            }
            EXPECT_EQ(last, first) << "round " << round << " lane " << lane;
            EXPECT_EQ(highest, simulation.lanes[lane].peak_bytes);
            Bytes sum = 0;
            for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
                const auto category = static_cast<MemoryCategory>(k);
                EXPECT_GE(simulation.lanes[lane].peak[category], 0) << to_string(category);
                sum += simulation.lanes[lane].peak[category];
            }
            EXPECT_EQ(sum, simulation.lanes[lane].peak_bytes);
        }
    }
}
}  // namespace
}  // namespace pipescope
