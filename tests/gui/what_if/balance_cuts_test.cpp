#include "gui/what_if/balance_cuts.h"

#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
TEST(BalanceCuts, StandBehindEachPartitionButTheLast) {
    EXPECT_EQ(cutsOf(Balance({2, 3, 1})), (std::vector<std::size_t>{2, 5}));
    EXPECT_TRUE(cutsOf(Balance({4})).empty());
}

TEST(BalanceCuts, MoveNoFurtherThanTheirNeighbours) {
    const Balance balance({2, 3, 1});
    EXPECT_EQ(withCut(balance, 0, 3), Balance({3, 2, 1}));
    EXPECT_EQ(withCut(balance, 0, -7), Balance({1, 4, 1}));
    EXPECT_EQ(withCut(balance, 0, 99), Balance({4, 1, 1}));
    EXPECT_EQ(withCut(balance, 1, 5), balance);
    EXPECT_EQ(withCut(balance, 2, 3), balance);  // there is no such cut
}

// Random cuts neither lose nor add layers, and no partition becomes empty.
TEST(BalanceCuts, KeepEveryLayerInOnePartition) {
    std::mt19937 random(3);
    Balance balance({10, 10, 10, 10, 10});
    for (int round = 0; round < 1000; ++round) {
        const std::size_t cut = random() % 4;
        const auto layer = static_cast<std::int64_t>(random() % 70) - 10;
        const Balance moved = withCut(balance, cut, layer);
        EXPECT_EQ(moved.num_layers(), 50U);
        EXPECT_EQ(moved.num_partitions(), 5U);
        const std::vector<std::size_t> before = cutsOf(balance);
        const std::vector<std::size_t> after = cutsOf(moved);
        for (std::size_t k = 0; k < before.size(); ++k) {
            EXPECT_TRUE(k == cut || before[k] == after[k]);
        }
        balance = moved;
    }
}

TEST(BalanceCuts, GiveEveryLayerAPlaceThatFindsItAgain) {
    SampleRun run;
    run.partitions = 2000;
    Profile profile = sampleProfile(run);
    std::mt19937 random(5);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_ns[0] *= static_cast<double>(random() % 3);  // some take no time at all
        layer.backward_ns[0] = layer.recompute_ns[0] = layer.forward_ns[0];
    }
    const LayerSums sums = layerSums(profile, defaultScenario(profile));
    EXPECT_EQ(sums.numLayers(), 2000U);
    for (const LayerWidth width : {LayerWidth::time, LayerWidth::memory, LayerWidth::equal}) {
        const std::vector<double> places = layerPlaces(sums, width);
        EXPECT_EQ(places.front(), 0);
        EXPECT_EQ(places.back(), 1);
        EXPECT_TRUE(std::adjacent_find(places.begin(), places.end(), std::greater_equal<>()) == places.end());
        for (std::int64_t layer = 1; layer < 2000; ++layer) {
            EXPECT_EQ(layerAtPlace(places, places[static_cast<std::size_t>(layer)]), layer);
        }
        EXPECT_EQ(layerAtPlace(places, -1), 1);
        EXPECT_EQ(layerAtPlace(places, 2), 1999);
    }
}

TEST(BalanceCuts, CountRecomputeOnlyWhereThereIsOne) {
    const Profile profile = sampleProfile({});
    Scenario scenario = defaultScenario(profile);
    const double with = layerSums(profile, scenario).time.back();
    scenario.options.checkpoint = Checkpoint::never;
    EXPECT_NEAR(layerSums(profile, scenario).time.back(), with * 3 / 4, 1);  // forward 1, recompute 1, backward 2
    scenario.options.checkpoint = Checkpoint::except_last;
    EXPECT_NEAR(layerSums(profile, scenario).time.back(), with, 1);
    scenario.options.chunks = 1;
    scenario.options.batch = scenario.options.batch / 4;
    EXPECT_EQ(layerTimes(profile, scenario.options),
              layer_times(atFirstMicroBatch(profile, scenario.options), Checkpoint::never, 1))
        << "the only micro-batch is the last, which is not recomputed";
}
}  // namespace
}  // namespace pipescope
