#include "simulator/clock/contention.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/port_shares.h"
#include "simulator/clock/task_costs.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace pipescope {
namespace {
PipelineOptions lanes_on_host(int n, int m, int cores) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1));
    options.chunks = options.batch = m;
    options.checkpoint = Checkpoint::never;
    options.hardware.devices.assign(static_cast<std::size_t>(n), "cpu");
    options.hardware.host_cores = cores;
    return options;
}

TEST(CoRunningSpeed, IsThatOfTheProfileUpToTheCores) {
    const Profile profile = uniform_profile(1);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 1, 4, true), 1);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 4, 4, true), 1);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 8, 4, false), 0.5);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 2, 1, false), 0.5);
}

TEST(CoRunningSpeed, FollowsTheSlowdownThatWasMeasured) {
    // Two concurrent lanes take 1.25 times as long; the profile's times are those with both busy.
    Profile profile = uniform_profile(1);
    profile.co_running_lanes = 2;
    profile.host_cores = 2;
    profile.co_running_slowdown = {1, 1.25};
    EXPECT_DOUBLE_EQ(speed_alone(profile), 1.25) << "a lane whose neighbour waits is quicker";
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 1, 2, true), 1);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 2, 2, true), 1 / 1.25);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 2, 2, false), 1) << "what the host's lanes do says nothing of a device";
}

TEST(CoRunningSpeed, UndoesAProfileTakenWithMoreLanesThanCores) {
    Profile profile = uniform_profile(1);
    profile.co_running_lanes = 4;
    profile.host_cores = 2;
    profile.co_running_slowdown = {1, 1, 1.5, 2};
    EXPECT_DOUBLE_EQ(speed_alone(profile), 2);
    EXPECT_DOUBLE_EQ(co_running_speed(profile, 2, 2, true), 1);
    profile.co_running_slowdown.clear();
    EXPECT_DOUBLE_EQ(speed_alone(profile), 2) << "four lanes shared two cores evenly";
    profile.device = "cuda:0";
    EXPECT_DOUBLE_EQ(speed_alone(profile), 1) << "cores are the host's";
}

TEST(Contention, LeavesLanesAloneThatHaveACoreEach) {
    const CheckedProfile profile = uniform_profile(4);
    const Simulation shared = simulate(profile, lanes_on_host(4, 8, 4));
    EXPECT_EQ(shared.step_time.count(), (8 + 3) * 3000);
    EXPECT_NEAR(*shared.device_idle_fraction, 3.0 / 11, 1e-12);
}

TEST(Contention, SlowsMoreLanesThanCoresDownToTheCoresWork) {
    const Simulation shared = simulate(uniform_profile(8), lanes_on_host(8, 32, 2));
    const double work = 8 * 32 * 3000 / 2.0;
    EXPECT_GE(static_cast<double>(shared.step_time.count()), work);
    EXPECT_LE(static_cast<double>(shared.step_time.count()), work * 1.05);
    EXPECT_LT(*shared.device_idle_fraction, 0.05) << "the cores are busy, whatever the lanes' bubbles say";
}

TEST(Contention, LetsALaneHaveACoreForAWholeTask) {
    const Simulation shared = simulate(uniform_profile(3), lanes_on_host(3, 3, 2));
    for (const Slice& slice : shared.timeline.slices) {
        if (slice.key.kind == TaskKind::forward) {
            EXPECT_EQ((slice.end - slice.start).count(), 1000);
        }
    }
}

TEST(CoresInTurn, AreTakenByLanesOnTheHostThatAreMoreThanItsCores) {
    PipelineOptions options = lanes_on_host(3, 4, 2);
    const std::optional<CoresInTurn> turns = cores_in_turn(options);
    ASSERT_TRUE(turns);
    EXPECT_EQ(turns->cores, 2);
    EXPECT_EQ(turns->takes_turns, (std::vector<bool>{true, true, true}));
    options.hardware.host_cores = 3;
    EXPECT_FALSE(cores_in_turn(options));
    options.hardware.host_cores = 1;
    options.hardware.devices = {"cuda:0", "cpu", "cpu"};
    EXPECT_EQ(cores_in_turn(options)->takes_turns, (std::vector<bool>{false, true, true}));
    options.hardware.devices = {"cuda:0", "cuda:0", "cpu"};
    EXPECT_FALSE(cores_in_turn(options)) << "an accelerator takes no turns";
}

TEST(Contention, SharesAnAcceleratorEvenly) {
    PipelineOptions options = lanes_on_host(2, 4, 0);
    options.hardware.devices = {"cuda:0", "cuda:0"};
    const Simulation shared = simulate(uniform_profile(2), options);
    EXPECT_EQ(shared.step_time.count(), 2 * 4 * 3000) << "one device does the work of both lanes";
    EXPECT_NEAR(*shared.device_idle_fraction, 0, 1e-9);
}

TEST(Contention, SpeedsUpALaneWhoseNeighbourWaits) {
    // n = 2, m = 1: two lanes never run together, so every task runs at 1.5 times the profile's speed.
    Profile profile = uniform_profile(2);
    profile.co_running_lanes = 2;
    profile.host_cores = 2;
    profile.co_running_slowdown = {1, 1.5};
    EXPECT_EQ(simulate(CheckedProfile(profile), lanes_on_host(2, 1, 2)).step_time.count(), 6000 / 1.5);
    const Simulation one = simulate(CheckedProfile(profile), lanes_on_host(2, 1, 2));
    EXPECT_NEAR(one.speedup, 1, 1e-9) << "one lane alone would be as quick";
}

TEST(Contention, TakesTimesOfLanesThatSlowedEachOtherDownBackToThoseAlone) {
    Profile slowed = uniform_profile(4);
    slowed.co_running_lanes = 2;
    slowed.host_cores = 2;
    slowed.co_running_slowdown = {1, 2};
    slowed.loss_ns = {400};
    slowed.optimizer_ns = 800;
    for (LayerProfile& layer : slowed.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 64;
    }
    Profile alone = slowed;
    alone.co_running_lanes = 1;
    for (LayerProfile& layer : alone.layers) {
        layer.forward_ns = {500};
        layer.backward_ns = {1000};
    }
    alone.loss_ns = {200};
    alone.optimizer_ns = 400;
    PipelineOptions options = lanes_on_host(4, 8, 2);
    const auto expect_equal = [&](const std::string& of) {
        const Simulation expected = simulate(CheckedProfile(alone), options);
        const Simulation found = simulate(CheckedProfile(slowed), options);
        EXPECT_EQ(found.step_time, expected.step_time) << of;
        EXPECT_DOUBLE_EQ(found.speedup, expected.speedup) << of;
        EXPECT_EQ(find_balance(CheckedProfile(slowed), options, 4, BalanceAlgorithm::optimal).lower_bound_ns,
                  find_balance(CheckedProfile(alone), options, 4, BalanceAlgorithm::optimal).lower_bound_ns)
            << of;
    };
    expect_equal("lanes on the host");
    options.hardware.devices = {"gpu", "gpu:1", "cpu", "cpu"};
    expect_equal("some lanes on other devices");
    options.hardware.devices.clear();
    expect_equal("devices without names");
    EXPECT_EQ(simulate(CheckedProfile(slowed), options).step_time.count(), (8 + 3) * 1500 + 8 * 200);
    EXPECT_TRUE(find_balance(CheckedProfile(slowed), options, 4, BalanceAlgorithm::optimal).optimal);
    options.hardware.devices.assign(4, "cpu");
    options.hardware.processes = 4;
    EXPECT_EQ(simulate(CheckedProfile(slowed), options).step_time.count(), (8 + 3) * 1500 + 8 * 200)
        << "hosts of their own";
    expect_equal("hosts of their own");
}

TEST(Contention, BandsTheNoiseOfSharedCoresToo) {
    Profile profile = uniform_profile(4);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = 0.1;
    }
    const Simulation shared = simulate(CheckedProfile(profile), lanes_on_host(4, 8, 2));
    ASSERT_TRUE(shared.noise);
    const auto step = static_cast<double>(shared.step_time.count());
    EXPECT_NEAR(static_cast<double>(shared.noise->mean.count()), step, 0.1 * step);
    EXPECT_LT(shared.noise->low, shared.noise->high);
    EXPECT_EQ(simulate(CheckedProfile(profile), lanes_on_host(4, 8, 2)).noise, shared.noise);
}

TEST(Contention, LaunchesTasksOfAcceleratorsOneAfterTheOther) {
    Profile profile = uniform_profile(2);
    profile.device = "cuda:0";
    profile.launch_ns = 10'000;
    PipelineOptions options = lanes_on_host(2, 4, 0);
    options.hardware.devices = {"cuda:0", "cuda:1"};
    // 16 tasks, the loss and 12 copies are launched before the last backward starts.
    EXPECT_GE(simulate(CheckedProfile(profile), options).step_time.count(), 16 * 10'000 + 2000 - 10'000);
    options.hardware.devices = {"cpu", "cpu"};
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 15'000)
        << "a lane on the host launches nothing";
}

TEST(Contention, LaunchesATaskForEachOfItsLayers) {
    // Two layers and one, one micro-batch. Launched are F (2 layers) until 20, its copy until 30, F (1) until 40, the
    // loss, B (1), its copy and B (2) until 90 thousand. Each starts then.
    Profile profile = uniform_profile(3);
    profile.device = "cuda:0";
    profile.launch_ns = 10'000;
    PipelineOptions options;
    options.balance = Balance({2, 1});
    options.hardware.devices = {"cuda:0", "cuda:1"};
    options.checkpoint = Checkpoint::never;
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    const auto start_of = [&](TaskKind kind, int partition) {
        for (const Slice& slice : simulation.timeline.slices) {
            if (slice.key.kind == kind && slice.key.partition == partition) {
                return slice.start.count();
            }
        }
        return std::int64_t{-1};
    };
    EXPECT_EQ(start_of(TaskKind::forward, 0), 20'000);
    EXPECT_EQ(start_of(TaskKind::copy_forward, 0), 30'000);
    EXPECT_EQ(start_of(TaskKind::forward, 1), 40'000);
    EXPECT_EQ(start_of(TaskKind::backward, 1), 60'000);
    EXPECT_EQ(start_of(TaskKind::copy_backward, 0), 70'000);
    EXPECT_EQ(start_of(TaskKind::backward, 0), 90'000);
    EXPECT_EQ(simulation.step_time.count(), 90'000 + 4000 - 20'000);
}

TEST(Contention, SharesAPortBetweenTheCopiesThatLeaveIt) {
    Profile profile = profile_of({layer_of(1000, 2000, 1000), layer_of(1000, 2000, 1000), layer_of(1000, 2000)});
    PipelineOptions options = lanes_on_host(3, 4, 0);
    options.hardware.devices.clear();
    options.hardware.link = {1e9, 0, LinkSharing::none};
    const auto step_with = [&](LinkSharing sharing) {
        options.hardware.link.sharing = sharing;
        return simulate(CheckedProfile(profile), options).step_time;
    };
    EXPECT_LE(step_with(LinkSharing::none), step_with(LinkSharing::sender));
    EXPECT_LT(step_with(LinkSharing::sender), step_with(LinkSharing::all));
}

TEST(Contention, HalvesAPortWhereASkipLeavesBesideABoundary) {
    // One micro-batch on three lanes, forward 1, backward 2 and a copy of 1 thousand. Lane 0 sends its output and the
    // skip at the same time, lane 2 both gradients. Separately: 1 + 1 + 1 + 1 + 1 forward, 2 + 1 + 2 + 1 + 2 backward.
    // Through one port, either pair of copies takes 2.
    Profile profile = profile_of({layer_of(1000, 2000, 1000), layer_of(1000, 2000, 1000), layer_of(1000, 2000)});
    profile.layers[0].stash["far"] = {1000};
    profile.layers[2].pop = {"far"};
    PipelineOptions options = lanes_on_host(3, 1, 0);
    options.hardware.devices.clear();
    options.checkpoint = Checkpoint::never;
    options.hardware.link = {1e9, 0, LinkSharing::none};
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 13'000);
    options.hardware.link.sharing = LinkSharing::sender;
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 15'000);
    // Every copy also waits for a latency of 500, which is not shared: two pairs and two single copies in a row.
    options.hardware.link.latency_ns = 500;
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 15'000 + 4 * 500);
}

TEST(Contention, SharesBandwidthButNoLatency) {
    // Without bytes to share, any sharing gives the step of links of their own.
    Profile profile = profile_of({layer_of(10'000, 20'000, 1000), layer_of(10'000, 20'000, 1000),
                                  layer_of(10'000, 20'000, 1000), layer_of(10'000, 20'000)});
    PipelineOptions options = lanes_on_host(4, 8, 0);
    options.hardware.devices.clear();
    for (const double bandwidth : {0.0, 1e15}) {
        options.hardware.link = {bandwidth, 20'000, LinkSharing::none};
        const std::int64_t apart = simulate(CheckedProfile(profile), options).step_time.count();
        for (const LinkSharing sharing : {LinkSharing::sender, LinkSharing::all}) {
            options.hardware.link.sharing = sharing;
            EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), apart);
        }
    }
}
using Shares = std::vector<double>;

TEST(PortShares, GiveACopyAlonePortsOfItsOwn) {
    PortShares shares({{0, 1}, {1, 0}, {2, 3}});
    EXPECT_EQ(shares.speeds(std::vector<std::size_t>{0}), (Shares{1}));
    EXPECT_EQ(shares.speeds(std::vector<std::size_t>{0, 1, 2}), (Shares{1, 1, 1})) << "each direction is its own";
}

TEST(PortShares, GiveWhatOneCopyCannotUseToAnother) {
    // Three copies arrive at host 2, one of them from host 0, which also sends to host 1.
    PortShares shares({{0, 2}, {3, 2}, {4, 2}, {0, 1}});
    const Shares speeds = shares.speeds(std::vector<std::size_t>{0, 1, 2, 3});
    for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_DOUBLE_EQ(speeds[k], 1.0 / 3);
    }
    EXPECT_DOUBLE_EQ(speeds[3], 2.0 / 3);
}

TEST(Contention, SharesTheSendingAndTheReceivingPortOfAHost) {
    // Lane 0 sends 1000 bytes to lane 1 and to lane 2 at once: 2000 through its sending port. Lane 2 then sends both
    // gradients at once, which leave through one port, although only one of them arrives at lane 0 first.
    Profile profile = profile_of({layer_of(1000, 2000, 1000), layer_of(1000, 2000, 1000), layer_of(1000, 2000)});
    profile.layers[0].stash["far"] = {1000};
    profile.layers[2].pop = {"far"};
    PipelineOptions options = lanes_on_host(3, 1, 0);
    options.hardware.devices.clear();
    options.hardware.link = {1e9, 500, LinkSharing::host};
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 15'000 + 4 * 500);
}

TEST(Contention, SharesTheReceivingPortOfAHost) {
    // Layer 2 pops what layer 0 and layer 1 hid. Lane 0 is three times as slow, so that its skip of 4000 bytes and the
    // output of lane 1 overlap: 3000 its forward, its output of no bytes at 3000, lane 1 until 4000, then 4000 bytes of
    // it arrive while 3000 of the skip are left. Shared, those end at 10'000 and the output at 11'000.
    Profile profile = profile_of({layer_of(3000, 1000, 0), layer_of(1000, 1000, 4000), layer_of(1000, 1000)});
    profile.layers[0].stash["far"] = {4000};
    profile.layers[2].pop = {"far"};
    PipelineOptions options = lanes_on_host(3, 1, 0);
    options.hardware.devices.clear();
    options.hardware.link = {1e9, 0, LinkSharing::sender};
    const auto last_forward = [&] {
        for (const Slice& slice : simulate(CheckedProfile(profile), options).timeline.slices) {
            if (slice.key.kind == TaskKind::forward && slice.key.partition == 2) {
                return slice.start.count();
            }
        }
        return std::int64_t{-1};
    };
    EXPECT_EQ(last_forward(), 8000);
    options.hardware.link.sharing = LinkSharing::host;
    EXPECT_EQ(last_forward(), 11'000);
}

TEST(Processes, OwnConsecutiveLanesAndLinkOnlyEachOther) {
    Profile profile = uniform_profile(4);
    PipelineOptions options = lanes_on_host(4, 1, 0);
    options.hardware.link.latency_ns = 500;
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 12'000) << "one device";
    options.hardware.processes = 2;
    EXPECT_EQ(process_of(options.hardware, LaneId{1}, 4), 0);
    EXPECT_EQ(process_of(options.hardware, LaneId{2}, 4), 1);
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 12'000 + 2 * 500);
    options.hardware.processes = 8;
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 12'000 + 6 * 500);
    options.hardware.processes = 0;
    EXPECT_THROW(simulate(CheckedProfile(profile), options), UsageError);
}

TEST(Processes, HaveCoresOfTheirOwn) {
    const CheckedProfile profile = uniform_profile(4);
    PipelineOptions options = lanes_on_host(4, 4, 2);
    const auto step = [&] { return simulate(profile, options).step_time; };
    const auto waiting = step();
    options.hardware.processes = 2;
    EXPECT_LT(step(), waiting);
    EXPECT_FALSE(cores_in_turn(options));
    const auto own = step();
    options.hardware.host_cores = 0;
    EXPECT_EQ(own, step());
    options.hardware.host_cores = 1;
    EXPECT_EQ(cores_in_turn(options)->cores, 2);
}
}  // namespace
}  // namespace pipescope
