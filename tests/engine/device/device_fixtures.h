#pragma once

#include "tests/engine/engine_fixtures.h"
#include "tests/fake_accelerator/fake_device.h"

#include <c10/core/Device.h>
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace pipescope::testing_support {
inline c10::Device on(c10::DeviceIndex device) {
    return {c10::DeviceType::PrivateUse1, device};
}

/// Restores the fake accelerator's default behaviour. A test that expects races takes them itself.
class DeviceTest : public ::testing::Test {
protected:
    void SetUp() override { fake_accelerator::install(); }
    void TearDown() override {
        fake_accelerator::behaviour().reset();
        fake_accelerator::synchronize();
        EXPECT_THAT(fake_accelerator::take_races(), ::testing::IsEmpty());
    }
};

using Names = std::vector<std::string>;
/// One device, two devices, one device twice, and with the CPU first, last and in between.
inline const std::vector<Names> kLanes = {{"fake:0"},
                                          {"fake:0", "fake:1"},
                                          {"fake:0", "fake:0"},
                                          {"cpu", "fake:0"},
                                          {"fake:1", "cpu"},
                                          {"cpu", "fake:0", "fake:0", "fake:1"},
                                          {"fake:1", "cpu", "cpu", "fake:0"}};
inline constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};

/// Eight layers, 6 inputs and 4 outputs, with a skip over four of them. No random numbers, so that the CPU's results
/// are comparable.
std::vector<LayerSpec> skip_chain();
/// The same number of layers on each lane, the rest on the last one. Four micro-batches.
GPipeOptions on_lanes(const Names& lanes, std::size_t num_layers, Checkpoint mode);
/// "always fake:0 cpu"
std::string name_of(const Names& lanes, Checkpoint mode);
at::Tensor first_mean_square(const Tensors& output, const Tensors& target);
NamedTensors on_cpu(NamedTensors tensors);
/// Slow kernels and slower copies: code that does not wait reads NaN.
void be_slow();

/// Checks that a layer's exception reaches the caller of step(), and that the pipeline created by `make` on two lanes
/// can then continue to train.
void expect_use_after_an_exception(const std::function<GPipe(const std::vector<LayerSpec>&)>& make);

struct Plain {
    at::Tensor input = samples(7);
    at::Tensor target = samples(7, 4);
    at::Tensor input_gradient;
    NamedTensors gradients;
    double loss = 0;
};
/// Two steps of the plain skip_chain() on the CPU, in four micro-batches, with weights from torch's seed 1.
Plain plain_steps();

// Expectations for a pipeline of skip_chain() with the same weights, for any driver and lanes.

/// Two calls of step() give the plain loss and gradients.
void expect_plain_steps(GPipe& pipe, const Plain& plain);
/// Two forwards with a backward of the caller's own loss do too, including the input's gradient.
void expect_plain_gradients_of_the_callers_loss(GPipe& pipe, const Plain& plain);
/// The caller may overwrite its pinned input after forward() has returned, however long the copies take.
void expect_done_with_the_input(GPipe& pipe);
}  // namespace pipescope::testing_support
