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

/// Leaves the fake accelerator as quick and correct as it was. A test that expects races takes them itself.
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
/// One device, two, one twice, with the CPU before, behind and between.
inline const std::vector<Names> kLanes = {{"fake:0"},
                                          {"fake:0", "fake:1"},
                                          {"fake:0", "fake:0"},
                                          {"cpu", "fake:0"},
                                          {"fake:1", "cpu"},
                                          {"cpu", "fake:0", "fake:0", "fake:1"},
                                          {"fake:1", "cpu", "cpu", "fake:0"}};
inline constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};

/// Eight layers, 6 in and 4 out, a skip over four of them; no random numbers, so that the CPU's are comparable.
std::vector<LayerSpec> skip_chain();
/// As many layers on each lane, the rest on the last; four micro-batches.
GPipeOptions on_lanes(const Names& lanes, std::size_t num_layers, Checkpoint mode);
/// "always fake:0 cpu"
std::string name_of(const Names& lanes, Checkpoint mode);
/// Mean square of the first output.
at::Tensor first_mean_square(const Tensors& output, const Tensors& target);
NamedTensors on_cpu(NamedTensors tensors);
/// Late kernels, later copies: what does not wait reads NaN.
void be_slow();

/// A layer's exception reaches the caller of step(), and the pipeline that `make` gives on two lanes trains on as
/// before.
void expect_use_after_an_exception(const std::function<GPipe(const std::vector<LayerSpec>&)>& make);

struct Plain {
    at::Tensor input = samples(7);
    at::Tensor target = samples(7, 4);
    at::Tensor input_gradient;
    NamedTensors gradients;
    double loss = 0;
};
/// Two steps of the plain skip_chain() on the CPU, in four micro-batches, weights from torch's seed 1.
Plain plain_steps();

// What a pipeline of skip_chain() with the same weights must do, whichever driver and lanes it has.

/// Two calls of step() give the plain steps' loss and gradients.
void expect_plain_steps(GPipe& pipe, const Plain& plain);
/// So do two forwards with a backward of the caller's own loss, the input's gradient included.
void expect_plain_gradients_of_the_callers_loss(GPipe& pipe, const Plain& plain);
/// The caller may overwrite its pinned input once forward() returned, however long the copies take.
void expect_done_with_the_input(GPipe& pipe);
}  // namespace pipescope::testing_support
