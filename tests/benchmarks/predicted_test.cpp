#include "benchmarks/paper_tables/predicted.h"

#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
/// Four layers of 1000 and 2000 ns per sample, each with 100 bytes of output per sample.
Profile four_layers() {
    Profile profile = uniform_profile(4);
    for (LayerProfile& layer : profile.layers) {
        layer.output_bytes = {100};
        layer.parameter_bytes = layer.gradient_bytes = 1000;
    }
    return profile;
}

PublishedRow row_of(std::vector<std::int64_t> balance) {
    return {"row", "chain", 4, 4, std::move(balance), Checkpoint::never, 1};
}

DeviceType device() {
    DeviceType type;
    type.link_bytes_per_second = 2e9;
    type.link_efficiency = 0.5;
    type.link_latency_ns = 10;
    return type;
}

TEST(Predict, RunsThePublishedBalanceOverTheDevicesLinks) {
    const PredictedRow predicted = predict(four_layers(), row_of({1, 3}), device(), "sgd");
    EXPECT_FALSE(predicted.own_balance);
    EXPECT_EQ(predicted.simulation.options.balance, Balance({1, 3}));
    EXPECT_EQ(predicted.simulation.options.hardware.link, (Link{1e9, 10}));
    // Forwards: 1000, a copy of 10 + 100, and three of 3000 after the first. Backwards the same way, twice as long.
    EXPECT_EQ(predicted.simulation.step_time.count(), 1000 + 110 + 4 * 3000 + 4 * 6000 + 110 + 2000);
}

TEST(Predict, LooksForABalanceOfItsOwnWhereTheModelHasOtherLayers) {
    const PredictedRow predicted = predict(four_layers(), row_of({5, 6}), device(), "sgd");
    EXPECT_TRUE(predicted.own_balance);
    EXPECT_EQ(predicted.simulation.options.balance, Balance({2, 2}));
    EXPECT_EQ(predict(four_layers(), row_of({11}), device(), "sgd").simulation.options.balance, Balance({4}));
}

TEST(Predict, SumsPeaksAndWhatIsNotTheModelsOwn) {
    const PredictedRow sgd = predict(four_layers(), row_of({2, 2}), device(), "sgd");
    const PredictedRow adam = predict(four_layers(), row_of({2, 2}), device(), "adam");
    EXPECT_EQ(sum_of_peaks(adam.simulation) - sum_of_peaks(sgd.simulation), 2 * 4000)
        << "two states for each parameter";
    EXPECT_EQ(sum_of_activations(adam.simulation), sum_of_activations(sgd.simulation));
    EXPECT_EQ(sum_of_peaks(sgd.simulation) - sum_of_activations(sgd.simulation), 2 * 4000);
    EXPECT_GT(sum_of_activations(sgd.simulation), 0);
}

TEST(WithoutPortals, HandsASkipOnInEveryOutputBetween) {
    Profile profile = four_layers();
    profile.layers[0].stash["s"] = {30};
    profile.layers[1].stash["t"] = {7};
    profile.layers[2].pop = {"s"};
    profile.layers[3].pop = {"t"};
    const Profile tuples = without_portals(profile);
    EXPECT_EQ(tuples.layers[0].output_bytes, PerSize{100 + 30});
    EXPECT_EQ(tuples.layers[1].output_bytes, PerSize{100 + 30 + 7});
    EXPECT_EQ(tuples.layers[2].output_bytes, PerSize{100 + 7}) << "popped here, it goes no further";
    EXPECT_EQ(tuples.layers[3].output_bytes, PerSize{100});
    for (const LayerProfile& layer : tuples.layers) {
        EXPECT_TRUE(layer.stash.empty() && layer.pop.empty());
    }
}

TEST(Published, TablesHaveTheProfilesTheyNeed) {
    for (const PublishedTable& table : {amoebanet_speed(), unet_speed(), resnet_speed(), unet_memory(),
                                        amoebanet_parameters(), amoebanet_activations(), unet_ablation()}) {
        EXPECT_FALSE(table.rows.empty()) << table.title;
        for (const PublishedRow& row : table.rows) {
            const std::vector<NeededProfile> needed = needed_profiles();
            EXPECT_TRUE(std::any_of(
                needed.begin(), needed.end(),
                [&](const NeededProfile& each) { return each.model == row.model && !each.samples.empty(); }))
                << table.title << ": " << row.model;
            EXPECT_GT(row.published, 0) << table.title << ": " << row.name;
        }
    }
    const PublishedTable ablation = unet_ablation();
    ASSERT_EQ(ablation.rows.size(), 4U) << "all that the paper has";
    for (std::size_t k = 0; k < 4; ++k) {
        EXPECT_EQ(ablation.rows[k].not_predicted.empty(), k >= 2) << ablation.rows[k].name;
    }
    EXPECT_EQ(ablation.baseline, 2U) << "the first that is predicted";
    EXPECT_EQ(profile_file_name("unet:B=5,C=64"), "unet_B5_C64.json");
}
}  // namespace
}  // namespace pipescope
