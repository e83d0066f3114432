#include "simulator/noise_band.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
Profile noisy(int n, double cv) {
    Profile profile = uniform_profile(n);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = cv;
    }
    return profile;
}

PipelineOptions options_for(int n, int m) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1));
    options.chunks = options.batch = m;
    options.checkpoint = Checkpoint::never;
    return options;
}

TEST(NoiseBand, IsAbsentWithoutNoise) {
    const Simulation simulation = simulate(uniform_profile(4), options_for(4, 8));
    EXPECT_FALSE(simulation.step_band);
    EXPECT_FALSE(simulation.step_mean);
}

TEST(NoiseBand, IsLeftOutWhereItIsNotWanted) {
    EXPECT_FALSE(simulate(noisy(2, 0.1), options_for(2, 2), {.noise = false, .memory = true}).step_band);
}

TEST(NoiseBand, LiesAboveTheStepOfMeansByWhatWaitingCosts) {
    // 5 % of independent noise lengthens a step of 8 partitions and 32 micro-batches by about 2.6 %, 10 % by 5.2 %.
    for (const auto& [cv, longer] : {std::pair{0.05, 0.026}, std::pair{0.10, 0.052}}) {
        const Simulation simulation = simulate(noisy(8, cv), options_for(8, 32));
        const auto step = static_cast<double>(simulation.step_time.count());
        EXPECT_NEAR(static_cast<double>(simulation.step_mean->count()) / step - 1, longer, 0.01);
        EXPECT_LT(simulation.step_band->first, *simulation.step_mean);
        EXPECT_GT(simulation.step_band->second, *simulation.step_mean);
    }
}

TEST(NoiseBand, IsThatOfASumOnASingleLane) {
    // 50 tasks of 1000 and 50 of 2000 ns, each varying by 10 %: deviation sqrt(50 (100^2 + 200^2)) = 1581 of 150000.
    const Simulation simulation = simulate(noisy(1, 0.1), options_for(1, 50));
    EXPECT_NEAR(static_cast<double>(simulation.step_mean->count()), 150000, 200);
    EXPECT_NEAR(static_cast<double>(simulation.step_band->first.count()), 150000 - 1.645 * 1581, 300);
    EXPECT_NEAR(static_cast<double>(simulation.step_band->second.count()), 150000 + 1.645 * 1581, 300);
}

TEST(NoiseBand, AveragesOutOverThePartitionsLayers) {
    // Four independent layers of one cost vary half as much as one alone.
    const auto width = [](int layers) {
        Profile profile = noisy(layers, 0.2);
        for (LayerProfile& layer : profile.layers) {
            layer.forward_ns[0] /= layers;
            layer.backward_ns[0] /= layers;
        }
        PipelineOptions options = options_for(1, 30);
        options.balance = Balance({layers});
        const Simulation simulation = simulate(profile, options);
        return static_cast<double>((simulation.step_band->second - simulation.step_band->first).count());
    };
    EXPECT_NEAR(width(4) / width(1), 0.5, 0.05);
}
}  // namespace
}  // namespace pipescope
