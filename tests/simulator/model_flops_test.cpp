#include "simulator/model_flops.h"

#include "simulator/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

/// Two layers of 100 and 300 operations a sample, on an A100 in bfloat16.
Profile counted_layers() {
    Profile profile;
    profile.device = "A100";
    profile.dtype = "bfloat16";
    profile.samples = {1, 4};
    for (const double flops : {100.0, 300.0}) {
        LayerProfile layer;
        layer.name = "layer";
        layer.forward_ns = {1000, 1000};
        layer.backward_ns = {2000, 2000};
        layer.output_bytes = {8, 8};
        layer.flops = {flops, 4 * flops};
        profile.layers.push_back(layer);
    }
    return profile;
}

PipelineOptions counted_lanes() {
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = 4;
    options.batch = 8;
    options.checkpoint = Checkpoint::always;
    return options;
}

// 8 samples, three times the forward: 8 x 3 x 100 on lane 0 and 8 x 3 x 300 on lane 1. Recomputing adds nothing.
TEST(ModelFlops, AreThreeTimesTheForwardsOfAllMicroBatches) {
    const auto flops = model_flops(counted_layers(), counted_lanes());
    ASSERT_TRUE(flops);
    EXPECT_THAT(flops->lanes, ElementsAre(2400, 7200));
    EXPECT_EQ(flops->step, 9600);
    EXPECT_EQ(flops->per_second(1000), 9.6e9);
    EXPECT_EQ(flops->lane_per_second(1, 1000), 7.2e9);
}

// An A100 does 312e12 operations a second in bfloat16: two do 624e12, and 9600 operations in 1 us are 9.6e9 a second.
TEST(ModelFlops, AreRelatedToThePeakOfAllDevices) {
    const auto flops = model_flops(counted_layers(), counted_lanes());
    EXPECT_THAT(flops->peak_per_second, Optional(624e12));
    EXPECT_THAT(flops->utilization(1000), Optional(DoubleEq(9.6e9 / 624e12)));
    PipelineOptions shared = counted_lanes();
    shared.hardware.devices = {"gpu", "gpu"};
    EXPECT_THAT(model_flops(counted_layers(), shared)->peak_per_second, Optional(312e12));
    PipelineOptions replicated = counted_lanes();
    replicated.replicas = 2;
    EXPECT_EQ(model_flops(counted_layers(), replicated)->step, 9600);  // each replica has half of the batch
    EXPECT_THAT(model_flops(counted_layers(), replicated)->lanes, ElementsAre(1200, 3600));
    EXPECT_THAT(model_flops(counted_layers(), replicated)->peak_per_second, Optional(1248e12));
}

TEST(ModelFlops, AreUnknownWithoutOperationsAndTheirUseWithoutAKnownPeak) {
    Profile profile = counted_layers();
    profile.device = "cpu";
    EXPECT_EQ(model_flops(profile, counted_lanes())->peak_per_second, std::nullopt);
    EXPECT_EQ(model_flops(profile, counted_lanes())->utilization(1000), std::nullopt);
    for (LayerProfile& layer : profile.layers) {
        layer.flops = {};
    }
    EXPECT_FALSE(model_flops(profile, counted_lanes()));
}

TEST(ModelFlops, KnowDevicesByTheNamesOfTheirDrivers) {
    EXPECT_THAT(device_peak("NVIDIA A100-SXM4-80GB", "bfloat16"), Optional(312e12));
    EXPECT_EQ(device_peak("NVIDIA H100 80GB HBM3", "bfloat16"), device_peak("h100", "bfloat16"));
    EXPECT_EQ(device_peak("NVIDIA H100 PCIe", "bfloat16"), std::nullopt);
    EXPECT_EQ(device_peak("NVIDIA RTX A1000", "bfloat16"), std::nullopt);
    EXPECT_EQ(device_peak("Tesla V100-SXM2-16GB", "bfloat16"), std::nullopt);  // it has no such rate
    EXPECT_EQ(device_peak("cpu", "float32"), std::nullopt);
}

TEST(ModelFlops, AreRelatedToTheMeanPeakOfLanesOfSeveralTypes) {
    const double all = *device_peak("V100", "float16") + 8 * *device_peak("H100", "float16");
    EXPECT_THAT(device_peak("V100:1,H100:8", "float16"), Optional(DoubleEq(all / 9)));
    EXPECT_EQ(device_peak("V100:1,H100:8", "bfloat16"), std::nullopt);  // V100 has no such rate
    EXPECT_EQ(device_peak("A100:4,mine:4", "bfloat16"), std::nullopt);
    EXPECT_EQ(device_peak("mine:4,A100:4", "bfloat16"), std::nullopt);
    EXPECT_EQ(device_peak("A100:0,H100:0", "bfloat16"), std::nullopt);
    Profile mixed = counted_layers();
    mixed.device = "A100:1,H100:1";
    EXPECT_THAT(model_flops(mixed, counted_lanes())->peak_per_second,
                Optional(DoubleEq(*device_peak("A100", "bfloat16") + *device_peak("H100", "bfloat16"))));
}

TEST(ModelFlops, AreThoseOfTheSimulatedStep) {
    const Simulation simulation = simulate(counted_layers(), counted_lanes());
    ASSERT_TRUE(simulation.flops);
    EXPECT_EQ(simulation.flops->step, 9600);
}
}  // namespace
}  // namespace pipescope
