#include "hardware/device_catalogue.h"
#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

DeviceType simple_device() {
    DeviceType device;
    device.name = "simple";
    device.flops_per_second = {{"float32", 1e12}, {"float16", 4e12}};
    device.memory_bytes_per_second = 1e11;
    device.launch_ns = 3000;
    device.compute_efficiency = 0.5;
    device.memory_efficiency = 0.8;
    return device;
}

Profile profile_with_flops() {
    Profile profile;
    profile.samples = {1, 2};
    profile.input_bytes = {1000, 2000};
    LayerProfile layer;
    layer.name = "layer";
    layer.parameter_bytes = layer.gradient_bytes = 4000;
    layer.forward_ns = {1, 1};
    layer.backward_ns = {1, 1};
    layer.forward_cv = 0.1;
    layer.output_bytes = {500, 1000};
    layer.flops = {1e9, 2e9};
    profile.layers = {layer, layer};
    return profile;
}

TEST(DeviceCatalogue, HoldsTheTypesPeopleRent) {
    const std::vector<DeviceType> catalogue = device_catalogue();
    for (const char* name :
         {"P40",      "P100",  "V100", "T4",       "A100",     "A100-40GB", "A800",   "A40",    "A10G",
          "RTX-3090", "L4",    "L40S", "RTX-4090", "H100",     "H200",      "H800",   "H20",    "GH200",
          "B200",     "GB200", "B300", "GB300",    "RTX-5090", "MI250X",    "MI300X", "MI325X", "MI355X"}) {
        const DeviceType& device = find_device(catalogue, name);
        EXPECT_GT(device.flops_per_second.at("float32"), 5e12) << name;
        EXPECT_GE(device.memory_bytes, Bytes{15} << 30) << name;
        EXPECT_GT(device.link_bytes_per_second, 1e10) << name;
        EXPECT_FALSE(device.source.empty()) << name;
    }
    EXPECT_EQ(&find_device(catalogue, "a100"), &find_device(catalogue, "A100"));
    EXPECT_THAT(thrown<UsageError>([&] { find_device(catalogue, "B100"); }), HasSubstr("'B100'"));
}

TEST(DeviceCatalogue, ItsRatesAreThoseOfTheChipsUnitsAndClocks) {
    struct Chip {
        const char* name;
        double units, clock;                     ///< of single precision; Hz
        const char* fast_dtype;                  ///< empty: float32 is all it has
        double fast_per_cycle, fast_clock;       ///< multiplies and adds of that dtype
        double bus_bits, bits_per_second_a_pin;  ///< of the memory; 0: not published
        double double_share = 0.5;               ///< units of double precision for each of single
    };
    const std::vector<DeviceType> catalogue = device_catalogue();
    for (const Chip& chip : {Chip{"P40", 3840, 1.531e9, "", 0, 0, 384, 7.2e9, 1.0 / 32},
                             Chip{"P100", 3584, 1.303e9, "float16", 2 * 3584, 1.303e9, 4096, 1.43e9},
                             Chip{"V100", 5120, 1.53e9, "float16", 640 * 64, 1.53e9, 4096, 1.752e9},
                             Chip{"T4", 2560, 1.59e9, "float16", 320 * 64, 1.59e9, 256, 10e9, 1.0 / 32},
                             Chip{"A100", 6912, 1.41e9, "bfloat16", 432 * 256, 1.41e9, 5120, 3.186e9},
                             Chip{"A800", 6912, 1.41e9, "bfloat16", 432 * 256, 1.41e9, 5120, 3.186e9},
                             Chip{"A40", 84 * 128, 1.74e9, "bfloat16", 84 * 512, 1.74e9, 384, 14.5e9, 1.0 / 64},
                             Chip{"A10G", 80 * 128, 1.71e9, "bfloat16", 80 * 256, 1.71e9, 384, 12.5e9, 1.0 / 64},
                             Chip{"RTX-3090", 82 * 128, 1.695e9, "bfloat16", 82 * 256, 1.695e9, 384, 19.5e9, 1.0 / 64},
                             Chip{"L4", 58 * 128, 2.04e9, "bfloat16", 58 * 512, 2.04e9, 192, 12.5e9, 1.0 / 64},
                             Chip{"L40S", 142 * 128, 2.52e9, "bfloat16", 142 * 512, 2.52e9, 384, 18e9, 1.0 / 64},
                             Chip{"RTX-4090", 128 * 128, 2.52e9, "bfloat16", 128 * 256, 2.52e9, 384, 21e9, 1.0 / 64},
                             Chip{"RTX-5090", 170 * 128, 2.407e9, "bfloat16", 170 * 256, 2.407e9, 512, 28e9, 1.0 / 64},
                             Chip{"H100", 16896, 1.98e9, "bfloat16", 528 * 512, 1.83e9, 5120, 5.23e9},
                             Chip{"H800", 16896, 1.98e9, "bfloat16", 528 * 512, 1.83e9, 5120, 5.23e9, 1 / 66.9},
                             Chip{"MI250X", 110 * 128, 1.7e9, "bfloat16", 110 * 512, 1.7e9, 4096, 3.2e9, 1},
                             Chip{"MI300X", 304 * 128, 2.1e9, "bfloat16", 304 * 1024, 2.1e9, 8192, 5.2e9, 1},
                             Chip{"MI325X", 304 * 128, 2.1e9, "bfloat16", 304 * 1024, 2.1e9, 0, 0, 1},
                             Chip{"MI355X", 256 * 128, 2.4e9, "bfloat16", 256 * 2048, 2.4e9, 0, 0},
                             Chip{"H200", 16896, 1.98e9, "bfloat16", 528 * 512, 1.83e9, 6144, 6.25e9}}) {
        const DeviceType& device = find_device(catalogue, chip.name);
        const auto expect_rate = [&](double rate, double of_chip) {
            EXPECT_NEAR(rate / of_chip, 1, 0.005) << chip.name << " " << rate;
        };
        expect_rate(device.flops_per_second.at("float32"), 2 * chip.units * chip.clock);
        if (chip.bus_bits > 0) {
            expect_rate(device.memory_bytes_per_second, chip.bus_bits / 8 * chip.bits_per_second_a_pin);
        }
        EXPECT_NEAR(device.flops_per_second.at("float64") / device.flops_per_second.at("float32"), chip.double_share,
                    0.005)
            << chip.name;
        if (*chip.fast_dtype != 0) {
            expect_rate(device.flops_per_second.at(chip.fast_dtype), 2 * chip.fast_per_cycle * chip.fast_clock);
        }
        if (const auto eight = device.flops_per_second.find("float8"); eight != device.flops_per_second.end()) {
            expect_rate(eight->second, 4 * chip.fast_per_cycle * chip.fast_clock);
        }
        if (const auto tf32 = device.flops_per_second.find("tf32"); tf32 != device.flops_per_second.end()) {
            expect_rate(tf32->second, chip.fast_per_cycle * chip.fast_clock);
        }
    }
}

TEST(DeviceCatalogue, EstimatesByTheSlowerOfComputingAndMovingAndLaunching) {
    const DeviceType device = simple_device();
    // 1e9 operations at 0.5e12 a second; 8e7 bytes at 0.8e11.
    EXPECT_DOUBLE_EQ(estimated_ns(device, "float32", {1e9, 8e6, 1}), 2e6);
    EXPECT_DOUBLE_EQ(estimated_ns(device, "float16", {1e9, 8e6, 1}), 5e5);
    EXPECT_DOUBLE_EQ(estimated_ns(device, "float32", {1e6, 8e7, 1}), 1e6);
    EXPECT_DOUBLE_EQ(estimated_ns(device, "float32", {1, 1, 2}), 6000);
}

TEST(DeviceCatalogue, RefusesADtypeThatADeviceHasNoRateFor) {
    EXPECT_DOUBLE_EQ(peak_rate(simple_device(), "float16"), 4e12);
    EXPECT_THAT(thrown<UsageError>([] {
                    estimated_ns(simple_device(), "bfloat16", DeviceWork{1e9, 0, 1});
                }),
                HasSubstr("dtype is bfloat16"));
    Profile profile = profile_with_flops();
    profile.dtype = "bfloat16";
    const std::vector<DeviceType> catalogue = device_catalogue();
    EXPECT_THAT(thrown<UsageError>([&] { retimed(profile, find_device(catalogue, "V100")); }), HasSubstr("V100"));
    const Profile halves = retimed(profile, find_device(catalogue, "A100"));
    profile.dtype = "float32";
    const Profile whole = retimed(profile, find_device(catalogue, "A100"));
    EXPECT_NEAR(whole.layers[0].forward_ns[1] / halves.layers[0].forward_ns[1], 16, 1e-9) << "312 and 19.5 TFLOP/s";
}

TEST(DeviceCatalogue, RetimesAProfileAndSaysThatItIsEstimated) {
    const Profile other = retimed(profile_with_flops(), simple_device());
    EXPECT_TRUE(other.estimated);
    EXPECT_EQ(other.device, "simple");
    EXPECT_EQ(other.layers[0].forward_ns, (PerSize{2e6, 4e6}));
    EXPECT_EQ(other.layers[0].recompute_ns, other.layers[0].forward_ns);
    EXPECT_TRUE(other.layers[0].graph_forward_ns.empty());
    EXPECT_EQ(other.layers[0].backward_ns, other.layers[0].forward_ns) << "the model's input needs no gradient";
    EXPECT_EQ(other.layers[1].backward_ns, (PerSize{4e6, 8e6}));
    EXPECT_EQ(other.layers[0].forward_cv, 0);
    EXPECT_EQ(other.layers[1].output_bytes, (PerSize{500, 1000}));
    check_profile(other);
}

TEST(DeviceCatalogue, RetimesOperatorByOperatorIfTheyWereCounted) {
    DeviceType device = simple_device();
    device.launch_ns = 5000;
    const double peak = peak_rate(device, "float32") * device.compute_efficiency / 1e9;
    Profile profile = profile_with_flops();
    for (LayerProfile& layer : profile.layers) {
        // Three tiny kernels, which take a launch each, and a large product.
        layer.forward_operators.assign(2, {{0, 24, 3}, {1e6 * peak, 8, 1}});
        layer.backward_operators.assign(2, {{4e6 * peak, 8, 2}});
    }
    profile.loss_operators.assign(2, {{0, 8, 7}});
    profile.loss_batch = {{100}, {1}, {}};
    const Profile other = retimed(profile, device);
    EXPECT_EQ(other.layers[0].forward_ns, (PerSize{1e6 + 15e3, 1e6 + 15e3}));
    EXPECT_EQ(other.layers[0].backward_ns, (PerSize{4e6, 4e6}));
    EXPECT_EQ(other.loss_ns, (PerSize{35e3, 35e3}));
    EXPECT_EQ(other.loss_batch.ns, (PerSize{35e3}));
}

TEST(DeviceCatalogue, KeepsNoTimeOfTheDeviceThatWasMeasured) {
    Profile profile = profile_with_flops();
    profile.step_cv = 0.3;
    profile.lane_cv = 0.2;
    profile.launch_ns = 1e9;
    profile.load = MachineLoad{0.5, 0, {}};
    profile.layers[0].backward_weight_ns = {1e12, 1e12};
    const Profile other = retimed(profile, simple_device());
    EXPECT_EQ(other.step_cv, 0);
    EXPECT_EQ(other.lane_cv, 0);
    EXPECT_EQ(other.launch_ns, 0);
    EXPECT_FALSE(other.load);
    EXPECT_TRUE(other.layers[0].backward_weight_ns.empty()) << "half of the new backward";
}

TEST(DeviceCatalogue, LeavesATwentiethOfTheMemoryFreeUnlessItSaysOtherwise) {
    for (const DeviceType& device : device_catalogue()) {
        EXPECT_NEAR(static_cast<double>(device.headroom_bytes), 0.05 * static_cast<double>(device.memory_bytes), 1)
            << device.name;
        EXPECT_EQ(device.tensor_bytes(), device.memory_bytes - device.headroom_bytes);
    }
    const auto parsed = [](const std::string& headroom) {
        return parse_device_catalogue(R"({"format": "pipescope.devices", "version": 1, "devices": [{"name": "a",
            "flops_per_second": {"float32": 1}, "memory_bytes": 1000, "memory_bytes_per_second": 1, )" +
                                      headroom + R"("source": "a test"}]})")
            .front();
    };
    EXPECT_EQ(parsed("").headroom_bytes, 50);
    EXPECT_EQ(parsed(R"("headroom_bytes": 300, )").tensor_bytes(), 700);
    EXPECT_EQ(parsed(R"("headroom_bytes": 0, )").tensor_bytes(), 1000);
    EXPECT_THAT(thrown<ProfileError>([&] { parsed(R"("headroom_bytes": 1000, )"); }),
                HasSubstr("devices[0].headroom_bytes is 1000"));
    DeviceType device = parsed("");
    set_headroom(device, 999);
    EXPECT_EQ(device.tensor_bytes(), 1);
    EXPECT_THAT(thrown<UsageError>([&] { set_headroom(device, 1000); }), HasSubstr("a has a memory of 1000 B"));
}

TEST(DeviceCatalogue, CannotRetimeWhatHasNoFlops) {
    Profile profile = profile_with_flops();
    for (LayerProfile& layer : profile.layers) {
        layer.flops.clear();
    }
    EXPECT_THAT(thrown<ProfileError>([&] { retimed(profile, simple_device()); }), HasSubstr("hold no flops"));
}

TEST(DeviceCatalogue, RefusesAFaultyFileByItsPath) {
    const auto refused = [](const std::string& devices, const std::string& fault) {
        const std::string json = R"({"format": "pipescope.devices", "version": 1, "devices": )" + devices + "}";
        EXPECT_THAT(thrown<ProfileError>([&] { parse_device_catalogue(json); }), HasSubstr(fault));
    };
    const std::string rest = R"("memory_bytes": 1, "memory_bytes_per_second": 1})";
    refused("[", "is not valid JSON");
    refused("[", "a device catalogue is one JSON object; correct the device catalogue");
    refused("[]", "devices is []");
    refused("[3]", "devices[0] is 3");
    refused(R"([{"name": "a", "flops_per_second": {"float16": 1}, )" + rest + "]",
            "flops_per_second.float32 is missing");
    refused(R"([{"name": "a", "flops_per_second": {"float32": 0}, )" + rest + "]",
            "devices[0].flops_per_second.float32");
    refused(R"([{"name": "a", "flops_per_second": {"float32": 1}, "launch_ns": -1, )" + rest + "]",
            "devices[0].launch_ns is -1");
    refused(R"([{"name": "a", "flops_per_second": {"float32": 1}, "compute_efficiency": 2, )" + rest + "]",
            "it must be an efficiency, above 0 and at most 1");
    const std::string flops = R"([{"name": "a", "flops_per_second": {"float32": 1}, )";
    refused(flops + R"("memory_bytes": 0.4, "memory_bytes_per_second": 1}])",
            "devices[0].memory_bytes is 0.4; it must be 1 byte or more");
    refused(flops + R"("lanch_ns": 3, )" + rest + "]", "devices[0].lanch_ns is unknown; the nearest key is launch_ns;");
    refused(flops + R"("colour": "red", )" + rest + "]",
            "devices[0].colour is unknown; the keys here are name, flops_per_second, memory_bytes, ");
    refused(R"([{"name": "a", "flops_per_second": {"float32": 1, "bfloat_16": 2}, )" + rest + "]",
            "devices[0].flops_per_second.bfloat_16 is unknown; the nearest key is bfloat16;");
    refused(flops + rest + R"(], "device": [1])", "device is unknown; the nearest key is devices;");
    EXPECT_THAT(thrown<ProfileError>([] { parse_device_catalogue("{}"); }), HasSubstr("pipescope.devices"));
    EXPECT_THAT(thrown<ProfileError>([] { load_device_catalogue("/nowhere/at/all.json"); }),
                HasSubstr("cannot be opened; a device catalogue must be a readable "));
    EXPECT_THAT(thrown<ProfileError>([] { load_device_catalogue("/"); }), HasSubstr("/: is a directory"));
}
}  // namespace
}  // namespace pipescope
