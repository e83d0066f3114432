#include "base/error.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"
#include "tests/simulator/random_pipelines.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <random>
#include <string>

namespace pipescope {
namespace {
using testing::HasSubstr;

/// Three layers of 5000 bytes of parameters. The first and the last share 3000 of them; the last one's own are 2000.
Profile tied_profile() {
    Profile profile = uniform_profile(3);
    profile.optimizer_ns = 12000;  // one for each byte of gradients
    for (LayerProfile& layer : profile.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 5000;
    }
    profile.layers[2].parameter_bytes = profile.layers[2].gradient_bytes = 2000;
    profile.layers[0].shared["w"] = profile.layers[2].shared["w"] = {3000, 3000};
    return profile;
}

PipelineOptions options_of(std::vector<std::int64_t> balance) {
    PipelineOptions options;
    options.balance = Balance(balance);
    options.chunks = options.batch = 1;
    options.checkpoint = Checkpoint::never;
    return options;
}

/// "1000-4000"
std::string times_of(const Simulation& simulation, TaskKind kind, int partition) {
    for (const Slice& slice : simulation.timeline.slices) {
        if (slice.key.kind == kind && slice.key.partition == partition) {
            return std::to_string(slice.start.count()) + "-" + std::to_string(slice.end.count());
        }
    }
    return "none";
}

TEST(SharedSimulation, SendsTheWeightsAndTheirGradientsOnce) {
    PipelineOptions options = options_of({1, 1, 1});
    options.hardware.link = {1e9, 0};  // 1 ns a byte; what crosses between the layers is empty
    const Simulation simulation = simulate(CheckedProfile(tied_profile()), options);
    // lane 0   F@0                                   B@9..11  S@11..14
    // lane 1        F@1                     B@7..9
    // lane 2           (weights 1..4)  F@4  B@5..7  (gradients 7..10)
    EXPECT_EQ(times_of(simulation, TaskKind::shared_forward, 0), "1000-4000");
    EXPECT_EQ(times_of(simulation, TaskKind::forward, 2), "4000-5000");
    EXPECT_EQ(times_of(simulation, TaskKind::shared_backward, 0), "7000-10000");
    EXPECT_EQ(times_of(simulation, TaskKind::backward, 0), "9000-11000");
    EXPECT_EQ(times_of(simulation, TaskKind::shared_sum, 0), "11000-14000");
    EXPECT_EQ(simulation.step_time.count(), 14000);
    options.chunks = options.batch = 4;
    int copies = 0;
    for (const Slice& slice : simulate(CheckedProfile(tied_profile()), options).timeline.slices) {
        copies += slice.key.kind == TaskKind::shared_forward ? 1 : 0;
    }
    EXPECT_EQ(copies, 1);
}

TEST(SharedSimulation, HoldsACopyAndItsGradientsOnTheOtherDevice) {
    PipelineOptions options = options_of({1, 1, 1});
    options.optimizer = "adam";
    options.hardware.devices = {"gpu:0", "gpu:1", "gpu:2"};
    const Simulation apart = simulate(CheckedProfile(tied_profile()), options);
    // The holder counts the parameters once, with what the optimizer keeps for them.
    EXPECT_EQ(apart.lanes[0].peak[MemoryCategory::parameters], 5000);
    EXPECT_EQ(apart.lanes[0].peak[MemoryCategory::optimizer], 2 * 5000);
    EXPECT_EQ(apart.lanes[2].peak[MemoryCategory::optimizer], 2 * 2000);
    // The copy; the new values that replace it before the first forward; then the gradients.
    EXPECT_EQ(apart.lanes[2].peak_bytes, 2000 + 3000 + 2000 + 2 * 2000 + 3000);
    EXPECT_EQ(apart.lanes[0].peak_bytes, 5000 + 5000 + 2 * 5000 + 3000);  // while the gradients wait for their sum
    Bytes parameters = 0;
    for (const SimulatedPartition& each : apart.partitions) {
        parameters += each.parameter_bytes;
    }
    EXPECT_EQ(parameters, 12000);
    // On one device the lanes share the memory, and only the gradients are apart.
    options.hardware.devices = {"gpu:0", "gpu:1", "gpu:0"};
    const Simulation together = simulate(CheckedProfile(tied_profile()), options);
    EXPECT_EQ(together.lanes[2].peak_bytes, 2000 + 2000 + 2 * 2000 + 3000);
}

TEST(SharedSimulation, AddsNothingForLayersOnOneLane) {
    Profile alone = tied_profile();
    for (LayerProfile& layer : alone.layers) {
        layer.shared.clear();
    }
    for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{3}, {1, 2}, {1, 1, 1}}) {
        PipelineOptions options = options_of(balance);
        if (balance.size() == 3) {
            options.placement = {LaneId{0}, LaneId{1}, LaneId{0}};
        }
        const Simulation with = simulate(CheckedProfile(tied_profile()), options);
        const Simulation without = simulate(CheckedProfile(alone), options);
        if (balance.size() == 2) {
            EXPECT_NE(with.step_time, without.step_time);
            continue;
        }
        EXPECT_EQ(with.step_time, without.step_time);
        EXPECT_EQ(with.timeline.slices.size(), without.timeline.slices.size());
        EXPECT_EQ(with.lanes[0].peak_bytes, without.lanes[0].peak_bytes);
    }
}

TEST(SharedSimulation, SendsNoGradientsOfFrozenParameters) {
    Profile profile = tied_profile();
    profile.layers[0].gradient_bytes = 2000;
    profile.layers[0].shared["w"] = profile.layers[2].shared["w"] = {3000, 0};
    const Simulation simulation = simulate(CheckedProfile(profile), options_of({1, 1, 1}));
    EXPECT_NE(times_of(simulation, TaskKind::shared_forward, 0), "none");
    EXPECT_EQ(times_of(simulation, TaskKind::shared_backward, 0), "none");
    EXPECT_EQ(times_of(simulation, TaskKind::shared_sum, 0), "none");
}

TEST(SharedSimulation, SearchFindsTheBestCutWithTheirCosts) {
    Profile profile = tied_profile();
    PipelineOptions options = options_of({1, 2});
    options.chunks = options.batch = 4;
    options.hardware.link = {1e8, 0};  // 10 ns a byte: a shared parameter costs 60,000 ns
    // Layers of 1, 3 and 2: a cut before the last is the fastest, if the first and the last did not share.
    profile.layers[1].forward_ns = {1000};
    const FoundBalance found = find_balance(CheckedProfile(profile), options, 2, BalanceAlgorithm::optimal);
    std::optional<Nanoseconds> best;
    for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{1, 2}, {2, 1}}) {
        PipelineOptions of = options;
        of.balance = Balance(balance);
        const Nanoseconds step = simulate(CheckedProfile(profile), of).step_time;
        best = best ? std::min(*best, step) : step;
    }
    EXPECT_EQ(found.step_ns, best->count());
}

TEST(SharedSimulation, NoCutIsFasterThanTheSearchesBound) {
    std::mt19937 random(5);
    for (int round = 0; round < 40; ++round) {
        const std::size_t layers = 4 + random() % 4;
        const int n = 2 + static_cast<int>(random() % 2);
        const CheckedProfile profile(with_shared(random_profile(random, layers, round % 3 == 0)));
        PipelineOptions options = random_options(random, random_balance(random, layers, n));
        const FoundBalance found = find_balance(profile, options, n, BalanceAlgorithm::optimal);
        std::int64_t best = std::numeric_limits<std::int64_t>::max();
        for (const Balance& balance : all_balances(layers, n)) {
            options.balance = balance;
            best = std::min<std::int64_t>(best, simulate(profile, options, {.noise = false}).step_time.count());
        }
        EXPECT_LE(found.lower_bound_ns, best) << "round " << round;
        EXPECT_TRUE(!found.optimal || found.step_ns == best) << "round " << round;
        EXPECT_GE(found.step_ns, best) << "round " << round;
    }
}

TEST(SharedSimulation, RefusesWhatKeepsSeveralVersions) {
    PipelineOptions options = options_of({1, 1, 1});
    options.schedule = Schedule::pipedream;
    options.chunks = options.batch = 6;
    EXPECT_THAT(thrown<UsageError>([&] { simulate(CheckedProfile(tied_profile()), options); }),
                HasSubstr("lanes share parameters in the schedule pipedream"));
    options.schedule = Schedule::one_f_one_b;
    options.update = Update::staggered;
    EXPECT_THAT(thrown<UsageError>([&] { simulate(CheckedProfile(tied_profile()), options); }),
                HasSubstr("lanes share parameters"));
}
}  // namespace
}  // namespace pipescope
