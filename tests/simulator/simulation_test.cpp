#include "simulator/simulation.h"
#include "balance/optimal_partition.h"
#include "tests/simulator/profiles.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

PipelineOptions options_of(const std::vector<std::int64_t>& balance, std::int64_t m, Checkpoint checkpoint) {
    PipelineOptions options;
    options.balance = Balance(balance);
    options.chunks = m;
    options.batch = m;
    options.checkpoint = checkpoint;
    return options;
}
PipelineOptions uniform_options(int n, int m, Checkpoint checkpoint) {
    return options_of(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1), m, checkpoint);
}

/// One lane per line, a letter per slice with its micro-batch and, after @, its start in thousands of ns.
std::string picture(const Simulation& simulation, int lane) {
    std::string text;
    for (const Slice& slice : simulation.timeline.slices) {
        if (slice.lane == LaneId{lane} && slice.end > slice.start) {
            text += text.empty() ? "" : " ";
            text += is_copy(slice.key.kind) ? "c" : "";
            text += static_cast<char>(std::toupper(to_string(slice.key.kind)[is_copy(slice.key.kind) ? 5 : 0]));
            text += slice.key.micro_batch < 0 ? "" : std::to_string(slice.key.micro_batch);
            text += "@" + std::to_string(slice.start.count() / 1000);
        }
    }
    return text;
}

struct UniformCase {
    int n, m;
    std::int64_t always, except_last, never;  ///< thousands of ns
};

// T = (m + n - 1) f + s r + m b + (n - 1) b with s recomputed micro-batches. Here f = r = 1 and b = 2 (torchgpipe's
// order with early recompute).
TEST(Simulate, UniformPipelinesTakeTheClosedForm) {
    for (const UniformCase& each :
         {UniformCase{2, 4, 19, 18, 15}, UniformCase{4, 4, 25, 24, 21}, UniformCase{4, 8, 41, 40, 33},
          UniformCase{4, 32, 137, 136, 105}, UniformCase{8, 32, 149, 148, 117}}) {
        const CheckedProfile profile = uniform_profile(each.n);
        const auto of = [&](Checkpoint mode) { return simulate(profile, uniform_options(each.n, each.m, mode)); };
        EXPECT_EQ(of(Checkpoint::always).step_time.count(), each.always * 1000);
        EXPECT_EQ(of(Checkpoint::except_last).step_time.count(), each.except_last * 1000);
        const Simulation never = of(Checkpoint::never);
        EXPECT_EQ(never.step_time.count(), each.never * 1000);
        EXPECT_NEAR(never.bubble_fraction, (each.n - 1.0) / (each.m + each.n - 1), 1e-12);
        EXPECT_NEAR(never.utilization, each.m / (each.m + each.n - 1.0), 1e-12);
        EXPECT_NEAR(of(Checkpoint::always).bubble_fraction, 3.0 * (each.n - 1) / static_cast<double>(each.always),
                    1e-12);
    }
}

TEST(Simulate, LaysOutASmallPipelineAsOnPaper) {
    // thousand ns  0    1    2    3    4    5    6    7    8    9
    // lane 0       F0   F1             .    B1   B1   R0   B0   B0      (R0 waits for its lane, not for its gradient)
    // lane 1            F0   F1   B1   B1   R0   B0   B0
    const Simulation simulation = simulate(uniform_profile(2), uniform_options(2, 2, Checkpoint::except_last));
    EXPECT_EQ(picture(simulation, 0), "F0@0 F1@1 B1@5 R0@7 B0@8");
    EXPECT_EQ(picture(simulation, 1), "F0@1 F1@2 B1@3 R0@5 B0@6");
    EXPECT_EQ(simulation.step_time.count(), 10000);
}

TEST(Simulate, RecomputesWhileTheGradientIsStillComing) {
    // never starts before the loss at 3, although lane 0 is free from 2 on; then B1 of lane 1 runs 4..6
    const Simulation simulation = simulate(uniform_profile(2), uniform_options(2, 2, Checkpoint::always));
    EXPECT_EQ(picture(simulation, 0), "F0@0 F1@1 R1@3 B1@6 R0@8 B0@9");
    EXPECT_EQ(picture(simulation, 1), "F0@1 F1@2 R1@3 B1@4 R0@6 B0@7");
}

TEST(Simulate, ExceptLastRecomputesAllButTheLastInEitherOrderEarlyOrNot) {
    PipelineOptions options = uniform_options(2, 2, Checkpoint::except_last);
    options.recompute_start = RecomputeStart::ordinary;  // R0 of lane 0 waits for its gradient, which is there at 8
    const Simulation ordinary = simulate(uniform_profile(2), options);
    EXPECT_EQ(picture(ordinary, 0), "F0@0 F1@1 B1@5 R0@8 B0@9");
    EXPECT_EQ(picture(ordinary, 1), "F0@1 F1@2 B1@3 R0@5 B0@6");
    options.backward_order = BackwardOrder::first_first;
    const Simulation first = simulate(uniform_profile(2), options);
    EXPECT_EQ(picture(first, 0), "F0@0 F1@1 R0@6 B0@7 B1@9");
    EXPECT_EQ(picture(first, 1), "F0@1 F1@2 R0@3 B0@4 B1@6");
    options.recompute_start = RecomputeStart::early;
    const Simulation early = simulate(uniform_profile(2), options);
    EXPECT_EQ(picture(early, 0), "F0@0 F1@1 R0@3 B0@6 B1@8");
    EXPECT_EQ(picture(early, 1), "F0@1 F1@2 R0@3 B0@4 B1@6");
}

TEST(Simulate, ExceptLastWithOneMicroBatchIsNever) {
    const CheckedProfile profile = uniform_profile(3);
    EXPECT_EQ(simulate(profile, uniform_options(3, 1, Checkpoint::except_last)).timeline,
              simulate(profile, uniform_options(3, 1, Checkpoint::never)).timeline);
}

TEST(Simulate, SendsOneMicroBatchAfterTheOtherOverALinkSlowerThanCompute) {
    // 3000 bytes at 1e9 per second take 3000 ns, three forwards.
    // lane 0    F0 F1           .  (copies 1..4, 4..7)
    // lane 1              F0@4       F1@7  B1@8 B0@10      (copies back 10..13, 13..16)
    // lane 0                                               B1@13 B0@16
    PipelineOptions options = uniform_options(2, 2, Checkpoint::never);
    options.hardware.link = {1e9, 0};
    const Simulation simulation = simulate(profile_of({layer_of(1000, 2000, 3000), layer_of(1000, 2000, 1)}), options);
    EXPECT_EQ(picture(simulation, 0), "F0@0 F1@1 cF0@1 cF1@4 B1@13 B0@16");
    EXPECT_EQ(picture(simulation, 1), "F0@4 F1@7 B1@8 B0@10 cB1@10 cB0@13");
    EXPECT_EQ(simulation.step_time.count(), 18000);
    EXPECT_NEAR(simulation.bubble_fraction, 1 - 6.0 / 18, 1e-12);
}

TEST(Simulate, AddsLatencyToEveryCopyAndNothingWithinADevice) {
    PipelineOptions options = uniform_options(3, 1, Checkpoint::never);
    options.hardware.link.latency_ns = 500;
    const CheckedProfile profile = uniform_profile(3);
    EXPECT_EQ(simulate(profile, options).step_time.count(), 9000 + 4 * 500);
    options.hardware.devices = {"cuda:0", "cuda:0", "cuda:1"};
    EXPECT_EQ(simulate(profile, options).step_time.count(), 9000 + 2 * 500);
}

TEST(Simulate, GivesEachMicroBatchTheTimeOfItsOwnSize) {
    // 7 samples in 3 micro-batches: 3, 2, 2. Measured at 1 and 3 samples, so 2 is interpolated.
    Profile profile = uniform_profile(1);
    profile.samples = {1, 3};
    profile.layers[0].forward_ns = {100, 500};
    profile.layers[0].recompute_ns = {100, 500};
    profile.layers[0].backward_ns = {200, 1000};
    profile.layers[0].output_bytes = {0, 0};
    PipelineOptions options = uniform_options(1, 3, Checkpoint::never);
    options.batch = 7;
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    EXPECT_EQ(simulation.micro_batches, 3);
    EXPECT_EQ(simulation.step_time.count(), 500 + 300 + 300 + 1000 + 600 + 600);
    EXPECT_FALSE(simulation.extrapolated);
    options.batch = 10;  // 4, 3, 3
    EXPECT_TRUE(simulate(CheckedProfile(profile), options).extrapolated);
}

TEST(Simulate, KnowsThatForwardsWithoutCheckpointKeepTheirGraph) {
    Profile profile = uniform_profile(1);
    profile.layers[0].graph_forward_ns = {1100};
    EXPECT_EQ(simulate(CheckedProfile(profile), uniform_options(1, 4, Checkpoint::never)).step_time.count(),
              4 * (1100 + 2000));
    EXPECT_EQ(simulate(CheckedProfile(profile), uniform_options(1, 4, Checkpoint::always)).step_time.count(),
              4 * (2 * 1000 + 2000));
    EXPECT_EQ(simulate(CheckedProfile(profile), uniform_options(1, 1, Checkpoint::except_last)).step_time.count(),
              1100 + 2000);
}

TEST(Simulate, KnowsThatTheLastForwardKeepsItsGraphWithExceptLast) {
    Profile profile = uniform_profile(2);
    profile.layers[0].graph_forward_ns = {1100};
    profile.layers[1].graph_forward_ns = {1300};
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        PipelineOptions options = uniform_options(2, 3, Checkpoint::except_last);
        options.schedule = schedule;
        for (const Slice& slice : simulate(CheckedProfile(profile), options).timeline.slices) {
            if (slice.key.kind == TaskKind::forward) {
                const std::int64_t kept = slice.key.partition == 0 ? 1100 : 1300;
                EXPECT_EQ((slice.end - slice.start).count(), slice.key.micro_batch == 2 ? kept : 1000);
            }
        }
    }
    // Lane 0 forwards until 2000, then 1100; lane 1 ends the first two at 3000, meets the last one at 3100, and so on.
    const PipelineOptions options = uniform_options(2, 3, Checkpoint::except_last);
    PartitionProblem problem;
    problem.partitions = 2;
    problem.micro_batches = 3;
    problem.forward_ns = problem.recompute_ns = {1000, 1000};
    problem.backward_ns = {2000, 2000};
    problem.kept_forward_ns = {1100, 1300};
    EXPECT_EQ(gpipe_step(problem, Balance({1, 1})), 3100 + 1300 + 2 * 2000 + 2 * 3000);
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), gpipe_step(problem, Balance({1, 1})));
}

TEST(Simulate, MakesAsManyMicroBatchesAsThereAreSamples) {
    PipelineOptions options = uniform_options(2, 8, Checkpoint::never);
    options.batch = 3;
    EXPECT_EQ(simulate(uniform_profile(2), options).micro_batches, 3);
}

TEST(Simulate, DividesALanesTimesByItsSpeed) {
    PipelineOptions options = uniform_options(2, 1, Checkpoint::never);
    options.hardware.speeds = {2, 0.5};
    const Simulation simulation = simulate(uniform_profile(2), options);
    EXPECT_EQ(picture(simulation, 0), "F0@0 B0@6");
    EXPECT_EQ(picture(simulation, 1), "F0@0 B0@2");  // starts at 500
    EXPECT_EQ(simulation.step_time.count(), 500 + 2000 + 4000 + 1000);
}

TEST(Simulate, RoundsAPartitionOnceNotItsLayers) {
    const CheckedProfile profile = profile_of({layer_of(0.4, 0.4), layer_of(0.4, 0.4), layer_of(0.4, 0.4)});
    EXPECT_EQ(simulate(profile, options_of({3}, 1, Checkpoint::never)).step_time.count(), 1 + 1);
}

TEST(Simulate, ComputesTheLossOnceOnTheLastLaneBeforeAnyRecompute) {
    Profile profile = uniform_profile(2);
    profile.loss_ns = {250};  // a sample: 1000 for the mini-batch of 4
    const Simulation simulation = simulate(CheckedProfile(profile), uniform_options(2, 4, Checkpoint::always));
    EXPECT_EQ(picture(simulation, 1), "F0@1 F1@2 F2@3 F3@4 L@5 R3@6 B3@7 R2@9 B2@10 R1@12 B1@13 R0@15 B0@16");
    EXPECT_EQ(simulation.step_time.count(), 20000);
    EXPECT_EQ(simulation.lanes[1].busy.count(), 16000) << "the loss is not busy time";
}

TEST(Simulate, SendsSkipsStraightToTheLaneThatPopsThem) {
    Profile profile = uniform_profile(3);
    profile.layers[0].stash["s"] = {5000};
    profile.layers[2].pop = {"s"};
    PipelineOptions options = uniform_options(3, 1, Checkpoint::never);
    options.hardware.link = {1e9, 0};  // the boundaries are empty, the skip takes 5000 ns each way
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    EXPECT_EQ(picture(simulation, 0), "F0@0 cF0@1 B0@14");
    EXPECT_EQ(picture(simulation, 2), "F0@6 B0@7 cB0@9");
    EXPECT_EQ(simulation.step_time.count(), 16000);
}

TEST(Simulate, ComparesWithTheFastestLaneAlone) {
    Profile profile = uniform_profile(2);
    profile.loss_ns = {500};
    PipelineOptions options = uniform_options(2, 4, Checkpoint::always);
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    // One lane without recompute: 4 * 2 * 3000, and the loss of 2000.
    EXPECT_NEAR(simulation.speedup, 26000.0 / static_cast<double>(simulation.step_time.count()), 1e-12);
    EXPECT_NEAR(simulation.samples_per_second, 4e9 / static_cast<double>(simulation.step_time.count()), 1e-6);
    EXPECT_DOUBLE_EQ(simulate(CheckedProfile(profile), options_of({2}, 4, Checkpoint::never)).speedup, 1);
}

TEST(Simulate, ComparesWithOneDeviceOfTheFastestSpeed) {
    // Two layers of 3000 ns a sample. One device of speed 2 takes 4 * 6000 / 2 ns for four samples.
    const CheckedProfile profile = uniform_profile(2);
    PipelineOptions options = uniform_options(2, 4, Checkpoint::never);
    const std::vector<std::vector<double>> speeds = {{1, 2}, {2, 1}, {2, 2}, {0.5, 2}};
    for (const std::vector<double>& each : speeds) {
        options.hardware.speeds = each;
        const Simulation simulation = simulate(profile, options);
        EXPECT_NEAR(simulation.speedup, 12000.0 / static_cast<double>(simulation.step_time.count()), 1e-12);
    }
    options.hardware.speeds = {0.5, 0.5};
    EXPECT_DOUBLE_EQ(simulate(profile, options).speedup, 8.0 / 5) << "m n / (m + n - 1) at equal speeds";
    // Replicas share the mini-batch, which the one device does alone.
    options.hardware.speeds = {1, 2};
    const double one = simulate(profile, options).speedup;
    options.replicas = 2;
    options.batch *= 2;
    EXPECT_DOUBLE_EQ(simulate(profile, options).speedup, 2 * one);
}

TEST(Simulate, ReportsDeviceIdleOnlyWhereLanesShareADevice) {
    const CheckedProfile profile = uniform_profile(2);
    PipelineOptions options = uniform_options(2, 1, Checkpoint::never);
    EXPECT_FALSE(simulate(profile, options).device_idle_fraction);
    options.hardware.devices = {"cuda:0", "cuda:0"};  // one after the other: always one of them
    EXPECT_NEAR(*simulate(profile, options).device_idle_fraction, 0, 1e-12);
    options.hardware.devices = {"cpu", "cpu"};  // a core each: idle half of the time, as the lanes are
    EXPECT_NEAR(*simulate(profile, options).device_idle_fraction, 0.5, 1e-12);
    options.hardware.host_cores = 4;
    EXPECT_NEAR(*simulate(profile, options).device_idle_fraction, 0.75, 1e-12);
}

TEST(Simulate, RunsOtherSchedulesOfTheTaskGraph) {
    PipelineOptions options = uniform_options(4, 8, Checkpoint::never);
    options.schedule = Schedule::one_f_one_b;
    const Simulation simulation = simulate(uniform_profile(4), options);
    EXPECT_NEAR(simulation.bubble_fraction, 3.0 / 11, 1e-12) << "the same bubble as GPipe";
    Profile saving = uniform_profile(4);
    saving.layers[0].saved_bytes = {100};
    const auto saved = [&](Schedule schedule) {
        options.schedule = schedule;
        return simulate(CheckedProfile(saving), options).lanes[0].peak[MemoryCategory::saved];
    };
    EXPECT_EQ(saved(Schedule::gpipe), 8 * 100);
    EXPECT_EQ(saved(Schedule::one_f_one_b), 4 * 100) << "as many live micro-batches as lanes behind it";
}

TEST(Simulate, RepeatsExactly) {
    Profile profile = uniform_profile(3);
    profile.layers[1].forward_cv = 0.1;
    const PipelineOptions options = uniform_options(3, 4, Checkpoint::except_last);
    const Simulation a = simulate(CheckedProfile(profile), options);
    const Simulation b = simulate(CheckedProfile(profile), options);
    EXPECT_EQ(a.timeline, b.timeline);
    EXPECT_EQ(a.memory, b.memory);
    EXPECT_EQ(a.noise, b.noise);
}

TEST(Simulate, HandlesLayersThatCostNothing) {
    const Simulation simulation =
        simulate(profile_of({layer_of(0, 0), layer_of(0, 0)}), uniform_options(2, 2, Checkpoint::always));
    EXPECT_EQ(simulation.step_time.count(), 0);
    EXPECT_EQ(simulation.speedup, 0);
    EXPECT_EQ(simulation.samples_per_second, 0);
}

TEST(Simulate, RefusesOptionsThatDoNotFit) {
    const CheckedProfile profile = uniform_profile(3);
    const auto refuses = [&](const PipelineOptions& options, const char* value, const char* remedy) {
        EXPECT_THAT(thrown<UsageError>([&] { simulate(profile, options); }),
                    AllOf(HasSubstr(value), HasSubstr(remedy)));
    };
    PipelineOptions good = options_of({1, 2}, 4, Checkpoint::always);
    PipelineOptions bad = good;
    bad.balance = Balance({1, 1});
    refuses(bad, "balance 1,1 sums to 2", "3 layers");
    bad = good;
    bad.chunks = 0;
    refuses(bad, "chunks is 0", "use 1 or more");
    bad = good;
    bad.hardware.speeds = {1, 0};
    refuses(bad, "the speed of lane 1 is 0", "above 0");
    bad = good;
    bad.hardware.speeds = {1};
    refuses(bad, "speed names 1 lane;", "has 2");
    bad = good;
    bad.hardware.devices = {"cpu"};
    refuses(bad, "devices names 1 lane;", "has 2");
    bad = good;
    bad.hardware.link.latency_ns = -1;
    refuses(bad, "the link latency is -1", "not negative");
    bad = good;
    bad.optimizer = "lion";
    refuses(bad, "optimizer 'lion'", "adam");
    bad = good;
    bad.batch = 1'000'000'000'000'000'000;
    refuses(bad, "batch 1000000000000000000", "smaller batch");
}

TEST(Simulate, RefusesAStepThatOutgrowsTheClockInAShortMessage) {
    const CheckedProfile profile = profile_of({layer_of(1, 2), layer_of(1, 2)});
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.hardware.link.latency_ns = 1e300;
    std::string message;
    try {
        simulate(profile, options);
    } catch (const UsageError& error) {
        message = error.what();
    }
    EXPECT_THAT(message,
                AllOf(HasSubstr("would take"), HasSubstr("correct the profile's units, the speeds or the link")));
    EXPECT_LT(message.size(), 300u);
}

TEST(Simulate, RefusesAStepThatOutgrowsTheClockOnceLanesSlowEachOtherDown) {
    Profile profile = profile_of({layer_of(1e13, 2e13), layer_of(1e13, 2e13)});
    profile.co_running_slowdown = {1, 1e6};
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 40;
    options.hardware.devices = {"cpu", "cpu"};
    EXPECT_THAT(thrown<UsageError>([&] { simulate(CheckedProfile(profile), options); }),
                AllOf(HasSubstr("would take"), HasSubstr("below 8e18 ns"), HasSubstr("launch_ns")));
    options.hardware.devices = {"cuda:0", "cuda:1"};
    EXPECT_GT(simulate(CheckedProfile(profile), options).step_time.count(), 0) << "apart they do not";
}
}  // namespace
}  // namespace pipescope
