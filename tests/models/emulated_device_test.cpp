#include "engine/gpipe.h"
#include "models/emulated_device_wait.h"
#include "models/zoo.h"
#include "profiler/profile/profile_file.h"
#include "tests/fake_accelerator/fake_device.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>

namespace pipescope {
namespace {
// Names the library before it is first searched. Its kernel sleeps in a stream of the fake accelerator.
const int library_is_named = setenv("PIPESCOPE_SPIN_LIBRARY", PIPESCOPE_TEST_SPIN_LIBRARY, 1);

constexpr double kMs = 1e6;

Profile two_layers() {
    LayerProfile layer;
    layer.name = "layer";
    layer.parameter_bytes = 4000;
    layer.gradient_bytes = 4000;
    layer.forward_ns = {20 * kMs};
    layer.backward_ns = {20 * kMs};
    layer.output_bytes = {80};
    layer.saved_bytes = {1 << 20};
    Profile profile;
    profile.model = "made up";
    profile.samples = {2};
    profile.input_bytes = {16};
    profile.layers = {layer, layer};
    return profile;
}

double milliseconds(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

TEST(EmulatedOnADevice, WaitsInTheLanesStreams) {
    fake_accelerator::install();
    ASSERT_EQ(library_is_named, 0);
    ASSERT_TRUE(device_wait_state().available) << device_wait_state().detail;
    const ModelSpec model = emulated_model(two_layers());
    GPipe pipe(model,
               {.balance = {1, 1}, .devices = {"fake:0", "fake:1"}, .chunks = 2, .checkpoint = Checkpoint::never});
    const Batch batch = model.make_batch(4, 0);
    at::Tensor loss;
    // Two lanes, two micro-batches: three forwards and three backwards of 20 ms in sequence.
    const double whole = milliseconds([&] {
        loss = pipe.step(batch.input, batch.target, model.loss);
        loss.item<float>();
    });
    EXPECT_GE(whole, 120);
    EXPECT_EQ(loss.device().str(), "fake:1");
    EXPECT_EQ(pipe.parameters()[1].grad().device().str(), "fake:1");
}

TEST(EmulatedOnADevice, LetsTheHostGoOn) {
    fake_accelerator::install();
    const ModelSpec model = emulated_model(two_layers());
    GPipe pipe(model, {.balance = {2}, .devices = {"fake:0"}, .chunks = 1});
    pipe.train(false);
    fake_accelerator::synchronize();
    fake_accelerator::behaviour().holds_kernels = true;
    const Tensors output = pipe.forward(model.make_batch(2, 0).input);
    EXPECT_FALSE(fake_accelerator::current_stream(0).is_idle());
    fake_accelerator::release();
    EXPECT_EQ(output[0].device().str(), "fake:0");
    fake_accelerator::synchronize();
}

TEST(EmulatedOnADevice, HoldsTheProfilesBytesThere) {
    fake_accelerator::install();
    const ModelSpec model = emulated_model(two_layers());
    GPipe pipe(model, {.balance = {2}, .devices = {"fake:0"}, .chunks = 1, .checkpoint = Checkpoint::never});
    const std::int64_t before = fake_accelerator::allocated_bytes(0);
    const Tensors output = pipe.forward(model.make_batch(2, 0).input);
    EXPECT_GE(fake_accelerator::allocated_bytes(0) - before, 2 << 20) << "what two layers save";
    fake_accelerator::synchronize();
}
}  // namespace
}  // namespace pipescope
