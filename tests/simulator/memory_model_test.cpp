#include "simulator/memory_model.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
/// A linear layer's looks: keeps its input, saves nothing else, makes 10 bytes a sample.
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
    const Simulation simulation = simulate(profile, options);
    EXPECT_EQ(simulation.lanes[0].peak.at("parameters"), 100);
    EXPECT_EQ(simulation.lanes[1].peak.at("parameters"), 207);
    EXPECT_EQ(simulation.lanes[1].peak.at("gradients"), 200);
    EXPECT_EQ(simulation.lanes[1].peak.at("optimizer"), 400);
    options.optimizer = "0.5";
    EXPECT_EQ(simulate(profile, options).lanes[1].peak.at("optimizer"), 100);
}

/// linear (10 bytes out), a layer that only stashes what it hands on, a layer that keeps its input, one that pops.
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
    EXPECT_EQ(with, simulate(without, options).lanes[0].peak_bytes);

    Profile not_kept = kept_stash();
    not_kept.layers[2].keeps_input = false;
    without.layers[2].keeps_input = false;
    EXPECT_EQ(simulate(not_kept, options).lanes[0].peak_bytes, simulate(without, options).lanes[0].peak_bytes + 10)
        << "else it lives because it is stashed";
}

TEST(MemoryModel, ChargesAKeptStashToTheLaneThatPopsItWhereLanesShareMemory) {
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({3, 1});
    const auto saved_on_lane_0 = [&](const std::string& other) {
        options.devices = {"cpu", other};
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

/// Stashes 10 of its output's 10 bytes; another lane concatenates them with its own 10 and hands on 20.
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
    options.devices = {"cpu", "cpu"};
    EXPECT_EQ(most_skip_bytes(simulate(concatenation(false), options), LaneId{0}), 10);
    EXPECT_EQ(most_skip_bytes(simulate(concatenation(true), options), LaneId{0}), 20) << "the concatenation's gradient";
    options.devices = {"cpu", "device 1"};
    EXPECT_EQ(most_skip_bytes(simulate(concatenation(true), options), LaneId{0}), 10) << "a copy holds what it copies";
}

TEST(MemoryModel, LeavesAnOutputsGradientWhereASkipsGradientHoldsItToo) {
    // Cut before the concatenation: both its gradients go to lane 0, in one storage of 40, charged once and there until
    // layer 1 has used the skip's. Layer 2 is the peak, or layer 1.
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({3, 2});
    options.devices = {"cpu", "cpu"};
    for (const std::size_t layer : {std::size_t{1}, std::size_t{2}}) {
        Profile profile = concatenation(true);
        profile.layers[3].output_bytes = {40};  // so that no forward is the peak
        profile.layers[layer].transient_bytes = {100};
        const Simulation simulation = simulate(profile, options);
        EXPECT_EQ(simulation.lanes[0].peak.at("skip"), 40);
        EXPECT_EQ(simulation.lanes[0].peak.at("copy"), 0) << "neither charged twice nor let go of what is not charged";
    }
}

TEST(MemoryModel, KeepsAGradientAsLongAsAViewOfItIsNeededInThePartition) {
    // One lane, one micro-batch; every output is 10 but the concatenation's 20. In the backward of layer 1 live: the
    // gradients of layer 1's output and input, 10 each, and that of the skip: 10, or the 20 of the concatenation's that
    // it is a view of. The skip and the gradient of the model's output are gone.
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({5});
    options.devices = {"cpu"};
    Profile views = concatenation(true);
    Profile own = concatenation(false);
    for (Profile* profile : {&views, &own}) {
        profile->layers[1].transient_bytes = {100};  // so that it is the peak
    }
    EXPECT_EQ(simulate(own, options).lanes[0].peak_bytes, 100 + 20 + 10);
    EXPECT_EQ(simulate(views, options).lanes[0].peak_bytes, 100 + 20 + 20);
}

TEST(MemoryModel, LetsASkipsGradientGoWhenTheLayerThatStashedItIsThrough) {
    // Lane 0 runs layers 0 to 2 and needs most at layer 0, when the gradient of the skip is gone, or at layer 2.
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({3, 2});
    options.devices = {"cpu", "cpu"};
    Profile late = concatenation(true);
    Profile early = concatenation(true);
    late.layers[3].output_bytes = early.layers[3].output_bytes = {40};  // so that no forward is the peak
    late.layers[0].transient_bytes = {100};
    early.layers[2].transient_bytes = {100};
    const Simulation at_the_end = simulate(late, options);
    EXPECT_EQ(at_the_end.lanes[0].peak.at("skip"), 0);
    EXPECT_EQ(simulate(early, options).lanes[0].peak.at("skip"), 40);
}

/// What the popping lane of a pipeline of two holds of skips when that micro-batch's task of that kind ends.
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
    options.devices = {"cpu", "cpu"};
    const auto behind = [&](bool passes_gradient, TaskKind kind, std::int32_t micro_batch) {
        return skips_behind(simulate(concatenation(passes_gradient), options), kind, micro_batch);
    };
    // Micro-batch 0's skip of 10 stays behind the recompute of 1, whose own is gone, or kept for a product's backward.
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
        options.devices = {"cpu", other};
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
    // Lane 0 runs two layers of 1000 ns and 10 bytes; lane 1 hands back gradients of 10 while lane 0 recomputes.
    Profile profile = profile_of({linear(0), linear(0), linear(0)});
    profile.layers[2].forward_ns = profile.layers[2].recompute_ns = {10};
    profile.layers[2].backward_ns = {1500};  // in the second layer of lane 0's recompute
    PipelineOptions options = two_lanes(1, Checkpoint::always);
    options.balance = Balance({2, 1});
    options.devices = {"cpu", "cpu"};
    const auto peak = [&](std::size_t layer) {
        Profile needy = profile;
        needy.layers[layer].transient_bytes = {1000};
        needy.layers[layer].backward_ns = {1};
        return simulate(needy, options).lanes[0].peak_bytes;
    };
    // Of layer 0 the transient bytes meet its output of 10 alone, in the backward layer 1's gradient too. Of layer 1
    // they meet input and output and the arrived gradient.
    EXPECT_EQ(peak(1), 1000 + 10 + 10 + 10);
    EXPECT_EQ(peak(0), 1000 + 10);
}

TEST(MemoryModel, CountsATwoLanePipelineByHand) {
    // m = 3, sizes of one micro-batch: input 6, T0 10, T1 4. Lane 0 holds the mini-batch, 18, on its own device.
    const Simulation simulation = simulate(two_linears(), two_lanes(3, Checkpoint::never));
    // Lane 0: 200 + 18, and its output, 10, while a forward runs, or a gradient, 10, while a backward does.
    EXPECT_EQ(simulation.lanes[0].peak_bytes, 228);
    EXPECT_EQ(simulation.lanes[0].peak_time.count(), 0);
    // Lane 1: 400, three inputs of 10 and three outputs of 4; then the loss holds the outputs and the gathered one, or
    // the gathered one and its gradient: 12 + 12; then the first backward: three inputs, the gradient of 12, and the
    // input's gradient of 10, before anything is freed.
    EXPECT_EQ(simulation.lanes[1].peak_bytes, 400 + 30 + 24);
    EXPECT_EQ(simulation.lanes[1].peak.at("boundary"), 30);
    EXPECT_EQ(simulation.lanes[1].peak.at("output"), 24);
    EXPECT_EQ(simulation.lanes[1].peak_time.count(), 4000) << "the loss";
}

TEST(MemoryModel, CountsWhatTheLossNeedsForItself) {
    Profile profile = two_linears();
    profile.loss_transient_bytes = {9};  // of the mini-batch, 27
    EXPECT_EQ(simulate(profile, two_lanes(3, Checkpoint::never)).lanes[1].peak_bytes, 454 + 27);
}

TEST(MemoryModel, SharesTheHandedOverStorageOnTheHost) {
    PipelineOptions options = two_lanes(3, Checkpoint::never);
    options.devices = {"cpu", "cpu"};
    const Simulation simulation = simulate(two_linears(), options);
    EXPECT_EQ(simulation.lanes[0].peak_bytes, 210) << "the mini-batch is the caller's";
    EXPECT_EQ(simulation.lanes[1].peak_bytes, 454);
    for (const MemorySample& sample : simulation.memory) {
        if (sample.lane == LaneId{0}) {
            EXPECT_LE(sample.allocated, 210);
        }
    }
}

/// Two layers a partition, each saving 50 bytes a sample: what checkpointing is for.
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
    // One graph is 2 * 50 saved and 10, the output of the first layer, which the second keeps as its input. The loss
    // finds four inputs of 10, the graphs, and 40 + 40 of outputs and gathered output, or that and its gradient.
    EXPECT_EQ(peak(Checkpoint::never), 40 + 4 * 110 + 80);
    EXPECT_EQ(peak(Checkpoint::except_last), 40 + 110 + 80);
    // Nothing is kept at the loss: recomputing peaks in its second layer, with input and output of 10 and both saved
    // 50, beside the gradient of 40.
    EXPECT_EQ(peak(Checkpoint::always), 40 + 40 + 120);
}

TEST(MemoryModel, PeaksWhereALayerNeedsMost) {
    Profile profile = saving_layers();
    PipelineOptions options = two_lanes(2, Checkpoint::never);
    options.balance = Balance({2, 2});
    profile.layers[2].transient_bytes = {1000};
    const SimulatedLane lane = simulate(profile, options).lanes[1];
    // Backward of layer 2, the lower of lane 1, in micro-batch 1: layer 3 has let go of its 50 and of T2.
    //   held: 2 inputs of 10, graphs 110 + 50, gradient of the whole output 20; work: 10 above, 10 below, 1000
    // Forward of layer 2 in micro-batch 1 needs less: no second graph yet beyond its own 50, outputs 10 + 10.
    EXPECT_EQ(lane.peak_bytes, 20 + 160 + 20 + 1020);
    EXPECT_EQ(lane.peak.at("transient"), 1020);
    EXPECT_EQ(lane.peak.at("saved"), 160);
}

TEST(MemoryModel, ChargesAKeptOutputOnceWhereStorageIsShared) {
    Profile profile = two_linears();
    profile.layers[0].keeps_output = true;  // like a relu
    PipelineOptions options = two_lanes(2, Checkpoint::never);
    options.devices = {"cpu", "cpu"};
    const Simulation shared = simulate(profile, options);
    EXPECT_EQ(shared.lanes[0].peak.at("saved"), 0) << "charged to lane 1 as its input";
    options.devices.clear();
    const Simulation apart = simulate(profile, options);
    EXPECT_GT(apart.lanes[0].peak.at("saved"), 0);
    EXPECT_GT(apart.lanes[0].peak_bytes - 12, shared.lanes[0].peak_bytes) << "12 is the mini-batch";
}

TEST(MemoryModel, LetsGoOfAnInputThatNoLayerKept) {
    Profile profile = saving_layers();
    PipelineOptions options = two_lanes(4, Checkpoint::never);
    options.balance = Balance({2, 2});
    const auto boundary = [&](Checkpoint mode) {
        options.checkpoint = mode;
        return simulate(profile, options).lanes[1].peak.at("boundary");
    };
    EXPECT_EQ(boundary(Checkpoint::never), 40);
    profile.layers[2].keeps_input = false;
    EXPECT_EQ(boundary(Checkpoint::never), 0) << "the peak is at the loss";
    EXPECT_EQ(boundary(Checkpoint::except_last), 30) << "those to recompute from";
}

TEST(MemoryModel, NeverHoldsAnInputThatWentBesideWhatTheTaskLeaves) {
    // Lane 1 gets 100 and has let go of it before its second layer saves 60. Its forward holds 110 at most, its
    // backward the gradients of 10 and 100 in the first layer.
    Profile profile = profile_of({linear(0, 100), linear(0), linear(0)});
    profile.layers[1].keeps_input = false;
    profile.layers[2].saved_bytes = {60};
    PipelineOptions options = two_lanes(1, Checkpoint::never);
    options.balance = Balance({1, 2});
    EXPECT_EQ(simulate(profile, options).lanes[1].peak_bytes, 10 + 100);
}

TEST(MemoryModel, PilesUpOutputsBehindASlowLink) {
    PipelineOptions options = two_lanes(4, Checkpoint::never);
    options.link.latency_ns = 1'000'000;
    const Simulation simulation = simulate(two_linears(), options);
    EXPECT_EQ(simulation.lanes[0].peak.at("copy"), 30) << "three outputs wait while the fourth is made";
}

TEST(MemoryModel, SaysWhetherTheLimitIsKept) {
    PipelineOptions options = two_lanes(3, Checkpoint::never);
    options.memory_limit = 454;
    EXPECT_TRUE(simulate(two_linears(), options).feasible);
    options.memory_limit = 453;
    EXPECT_FALSE(simulate(two_linears(), options).feasible);
}

TEST(MemoryModel, FreesAllItAllocatedAndNeverExceedsItsPeak) {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        const std::size_t layers = 2 + random() % 7;
        const Profile profile = random_profile(random, layers, true);
        PipelineOptions options;
        options.balance = Balance({1, static_cast<std::int64_t>(layers - 1)});
        options.chunks = 2 * static_cast<std::int64_t>(1 + random() % 4);
        options.batch = options.chunks + static_cast<std::int64_t>(random() % 5);
        options.checkpoint = static_cast<Checkpoint>(random() % 3);
        if (random() % 2 == 0) {
            options.devices = {"cpu", "cpu"};
        }
        options.link = {static_cast<double>(random() % 2) * 1e8, static_cast<double>(random() % 2) * 300};
        if (layers >= 4 && random() % 3 == 0) {
            options.balance = Balance({1, 1, 1, static_cast<std::int64_t>(layers - 3)});
            options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
            options.schedule = random() % 2 == 0 ? "interleaved" : "gpipe";
        } else if (random() % 2 == 0) {
            options.schedule = "1f1b";
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
            for (const auto& [category, bytes] : simulation.lanes[lane].peak) {
                EXPECT_GE(bytes, 0) << category;
                sum += bytes;
            }
            EXPECT_EQ(sum, simulation.lanes[lane].peak_bytes);
        }
    }
}
}  // namespace
}  // namespace pipescope
