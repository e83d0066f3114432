// Profiles layers on the fake accelerator.

#include "base/error.h"
#include "engine/device_memory.h"
#include "models/zoo.h"
#include "profiler/layers/device_clock.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/layers/measured_memory.h"
#include "profiler/layers/tape_recording.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/fake_accelerator/fake_device.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

class DeviceProfilerTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        fake_accelerator::install();
        tracking_allocator::install();
    }
    void TearDown() override {
        fake_accelerator::behaviour().kernel_delay_us = 0;
        fake_accelerator::synchronize();
    }

    static ProfileOptions quick(const std::string& device) {
        ProfileOptions options;
        options.samples = {1, 2};
        options.time_limit_s = 0.2;
        options.co_running_lanes = 1;
        options.device = device;
        return options;
    }
};

TEST_F(DeviceProfilerTest, FindsTheBytesThatTheCpuFinds) {
    for (const std::string name :
         {"mlp:layers=3,width=16", "transformer:layers=2,width=16,heads=2,sequence=8,vocabulary=20"}) {
        const ModelSpec model = make_model(name);
        const Profile host = profile_model(model, quick("cpu"));
        const Profile device = profile_model(model, quick("fake:1"));
        EXPECT_EQ(device.device, "fake:1");
        EXPECT_EQ(device.input_bytes, host.input_bytes) << name;
        ASSERT_EQ(device.layers.size(), host.layers.size()) << name;
        for (std::size_t index = 0; index < host.layers.size(); ++index) {
            const LayerProfile& found = device.layers[index];
            const LayerProfile& truth = host.layers[index];
            SCOPED_TRACE(name + " " + truth.name);
            EXPECT_EQ(found.parameter_bytes, truth.parameter_bytes);
            EXPECT_EQ(found.gradient_bytes, truth.gradient_bytes);
            EXPECT_EQ(found.buffer_bytes, truth.buffer_bytes);
            EXPECT_EQ(found.output_bytes, truth.output_bytes);
            if (name.starts_with("mlp")) {  // dropout and attention are other operators there, which save other things
                EXPECT_EQ(found.saved_bytes, truth.saved_bytes);
                EXPECT_EQ(found.keeps_input, truth.keeps_input);
                EXPECT_EQ(found.keeps_output, truth.keeps_output);
            }
            EXPECT_EQ(found.flops, truth.flops);
        }
        EXPECT_NO_THROW(check_profile(device));
    }
}

// Kernels are issued immediately and run late: the host's clock would measure almost nothing.
TEST_F(DeviceProfilerTest, TimesWhatTheDeviceWorksAndNotTheIssuing) {
    fake_accelerator::behaviour().kernel_delay_us = 2'000;
    const Profile profile = profile_model(make_model("mlp:layers=3,width=16"), quick("fake:0"));
    constexpr double kOneKernel = 2e6;
    for (const LayerProfile& layer : profile.layers) {
        SCOPED_TRACE(layer.name);
        EXPECT_GE(layer.forward_ns[1], kOneKernel);
        EXPECT_GE(layer.recompute_ns[1], kOneKernel);
        EXPECT_GE(layer.backward_ns[1], kOneKernel);
    }
    EXPECT_GE(profile.loss_ns[1], kOneKernel);
    EXPECT_GE(profile.loss_batch.ns.at(0), kOneKernel);
    EXPECT_GE(profile.optimizer_ns, kOneKernel);
    EXPECT_GT(profile.launch_ns, 0);
    EXPECT_EQ(profile.co_running_lanes, 1);
    EXPECT_TRUE(profile.co_running_slowdown.empty());
}

TEST_F(DeviceProfilerTest, GoesLayerByLayerWhereTheDeviceIsTooSmall) {
    ProfileOptions options = quick("fake:0");
    options.memory_limit = 1;
    int said = 0;
    options.announce = [&](const std::string&) { ++said; };
    EXPECT_EQ(profile_model(make_model("mlp:layers=3,width=16"), options).layers.size(), 3U);
    EXPECT_EQ(said, 1);
}

TEST_F(DeviceProfilerTest, SaysWhatDevicesThereAre) {
    const ModelSpec model = make_model("mlp:layers=1,width=16");
    EXPECT_THAT(thrown<Error>([&] { profile_model(model, quick("fake:7")); }),
                AllOf(HasSubstr("\"fake:7\" is not there"), HasSubstr("fake:0, fake:1")));
}

constexpr Bytes kSmallestBlock = 512;  // what the fake's allocator rounds up to

Bytes rounded(Bytes bytes) {
    return (bytes + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock;
}

/// Role and bytes of each block. The layer's own blocks are rounded; blocks across its border are exact.
std::vector<std::pair<std::string, Bytes>> rounded_blocks(const LayerTape& tape) {
    std::vector<std::pair<std::string, Bytes>> blocks;
    for (const TapeBlock& block : tape.blocks) {
        const bool is_own = block.role == TapeBlock::Role::own;
        blocks.emplace_back(to_string(block.role), is_own ? rounded(block.bytes) : block.bytes);
    }
    return blocks;
}

/// Allocations in order, then frees sorted by number, because autograd frees a device's gradients later than the
/// host's.
std::vector<std::int32_t> without_order_of_frees(std::vector<std::int32_t> events) {
    std::sort(std::stable_partition(events.begin(), events.end(), [](std::int32_t event) { return event > 0; }),
              events.end());
    return events;
}

TEST_F(DeviceProfilerTest, RecordsTheTapesThatTheCpuHas) {
    const ModelSpec model = make_model("mlp:layers=3,width=16");
    ProfileOptions options = quick("cpu");
    options.tapes = true;
    const Profile host = profile_model(model, options);
    options.device = "fake:0";
    const Profile device = profile_model(model, options);
    EXPECT_NO_THROW(check_profile(device));
    ASSERT_EQ(device.layers.size(), host.layers.size());
    for (std::size_t index = 0; index < host.layers.size(); ++index) {
        ASSERT_EQ(device.layers[index].tape.size(), options.samples.size());
        for (std::size_t size = 0; size < options.samples.size(); ++size) {
            SCOPED_TRACE(host.layers[index].name + " at " + std::to_string(options.samples[size]));
            const LayerTape& found = device.layers[index].tape[size];
            const LayerTape& truth = host.layers[index].tape[size];
            EXPECT_FALSE(found.empty());
            EXPECT_EQ(rounded_blocks(found), rounded_blocks(truth));
            EXPECT_EQ(found.forward, truth.forward);
            EXPECT_EQ(found.checkpointed_forward, truth.checkpointed_forward);
            EXPECT_EQ(found.recompute, truth.recompute);
            EXPECT_EQ(without_order_of_frees(found.backward), without_order_of_frees(truth.backward));
        }
    }
}

Bytes replayed_peak(const LayerTape& tape, const std::vector<std::int32_t>& events) {
    Bytes held = 0;
    Bytes peak = 0;
    for (const std::int32_t event : events) {
        const Bytes bytes = rounded(tape.blocks.at(static_cast<std::size_t>(std::abs(event) - 1)).bytes);
        held += event > 0 ? bytes : -bytes;
        peak = std::max(peak, held);
    }
    return peak;
}

/// Peak of a call, relative to the bytes that the device's allocator reported before.
template <class Call>
Bytes measured_peak(c10::Device device, Call call) {
    const std::int64_t before = device_memory(device)->allocated;
    reset_device_peaks(device);
    call();
    return device_memory(device)->allocated_peak - before;
}

TEST_F(DeviceProfilerTest, ReplayingATapeGivesThePeakThatTheDeviceCounts) {
    const ModelSpec model = make_model("mlp:layers=3,width=16");
    const c10::Device device("fake:0");
    LayerChain chain(model, 0, device);
    Activation at{{model.make_batch(2, 0).input[0].to(device)}, {}};
    for (std::size_t layer = 0; layer < chain.size(); ++layer) {
        record_tape(chain, layer, at);  // parameters get their gradients
        const LayerTape tape = record_tape(chain, layer, at);
        SCOPED_TRACE(model.layers[layer].name);
        TrialGraph graph;
        Activation running = graph.open(fresh_inputs(at));
        Activation held = running;
        EXPECT_EQ(replayed_peak(tape, tape.forward), measured_peak(device, [&] { chain.forward(layer, running); }));
        graph.close(running.tensors);
        at = fresh_inputs(running);
        running = {};
        held = {};
        Tensors gradients = graph.output_gradients();
        EXPECT_EQ(replayed_peak(tape, tape.backward),
                  measured_peak(device, [&] { graph.backward(std::move(gradients)); }));
    }
}

TEST_F(DeviceProfilerTest, CountsBytesAsAskedForWhereTheAllocatorTells) {
    const c10::Device device("fake:0");
    const MeasuredMemory memory(device);
    const Bytes before = memory.held();
    memory.reset_peak();
    {
        const at::Tensor small = torch::empty({1}, device);
        EXPECT_EQ(memory.held() - before, 4);
    }
    EXPECT_EQ(memory.held(), before);
    EXPECT_EQ(memory.peak() - before, 4);
}

TEST_F(DeviceProfilerTest, WaitsForTheMomentsItMeasuresBetween) {
    const DeviceClock clock(c10::Device("fake:0"));
    at::Tensor x = torch::ones({4}, c10::Device("fake:0"));
    fake_accelerator::behaviour().kernel_delay_us = 20'000;
    const Instant start = clock.now();
    x = x + 1;
    EXPECT_GE(DeviceClock::nanoseconds(start, clock.now()), 20e6);
}
}  // namespace
}  // namespace pipescope
