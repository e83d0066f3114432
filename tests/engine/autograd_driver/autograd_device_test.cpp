// The paper's driver on an accelerator: autograd's threads only issue copies, which run on streams of their own.

#include "engine/device/lane_device.h"
#include "engine/engine_error.h"
#include "tests/engine/device/device_fixtures.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>

namespace pipescope {
namespace {
using namespace testing_support;
using fake_accelerator::behaviour;

using AutogradDeviceTest = DeviceTest;

GPipe autograd_pipeline(const std::vector<LayerSpec>& layers, const Names& lanes, Checkpoint mode,
                        AutogradParts parts = {}) {
    torch::manual_seed(1);
    GPipeOptions options = on_lanes(lanes, layers.size(), mode);
    options.driver = Driver::autograd;
    options.autograd = parts;
    return GPipe(layers, options);
}

void expect_plain_steps(const Plain& plain, const Names& lanes, Checkpoint mode, AutogradParts parts = {}) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
    GPipe pipe = autograd_pipeline(skip_chain(), lanes, mode, parts);
    testing_support::expect_plain_steps(pipe, plain);
}

TEST_F(AutogradDeviceTest, StepsWithTheGradientsOfTheCpu) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : kLanes) {
        for (const Checkpoint mode : kModes) {
            expect_plain_steps(plain, lanes, mode);
        }
    }
}

TEST_F(AutogradDeviceTest, StepsSoWithoutItsParts) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : std::vector<Names>{{"fake:0", "fake:1"}, {"fake:1", "cpu", "fake:0", "fake:1"}}) {
        for (const Checkpoint mode : kModes) {
            expect_plain_steps(plain, lanes, mode, {.dependency = false, .copy_streams = false, .portals = false});
            expect_plain_steps(plain, lanes, mode, {.copy_streams = false});
            expect_plain_steps(plain, lanes, mode, {.portals = false});
        }
    }
}

TEST_F(AutogradDeviceTest, GoesBackwardFromTheCallersLoss) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : kLanes) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = autograd_pipeline(skip_chain(), lanes, mode);
            expect_plain_gradients_of_the_callers_loss(pipe, plain);
        }
    }
}

TEST_F(AutogradDeviceTest, IsDoneWithTheInputWhenItReturns) {
    be_slow();
    GPipe pipe = autograd_pipeline(skip_chain(), {"fake:0", "fake:1"}, Checkpoint::never);
    expect_done_with_the_input(pipe);
}

TEST_F(AutogradDeviceTest, OverlapsCopiesWithComputingByTheirStreams) {
    for (const bool copy_streams : {true, false}) {
        std::vector<StreamEvent> computed;  // on the first lane, by micro-batch
        const auto first = function_layer("first", [&](const Tensors& x) {
            const Tensors y{x[0] * 2.0};
            computed.push_back(StreamEvent::record(current_stream(x[0].device())));
            return y;
        });
        GPipe pipe = autograd_pipeline({first, tanh_layer()}, {"fake:0", "fake:1"}, Checkpoint::never,
                                       {.copy_streams = copy_streams});
        const at::Tensor input = samples(8).to(on(0)).requires_grad_();
        behaviour().holds_copies = true;
        pipe.forward(input);
        if (copy_streams) {
            computed.back().synchronize();  // though no copy has ended: without their streams this would never end
        }
        EXPECT_EQ(computed.back().has_passed(), copy_streams);
        fake_accelerator::release();
        fake_accelerator::synchronize();
    }
}

TEST_F(AutogradDeviceTest, PassesAnExceptionOnAndWorksAfterwards) {
    be_slow();
    expect_use_after_an_exception([](const std::vector<LayerSpec>& layers) {
        return autograd_pipeline(layers, {"fake:0", "fake:1"}, Checkpoint::always);
    });
}

TEST_F(AutogradDeviceTest, SurvivesARecomputeThatThrowsNoStandardException) {
    std::atomic<int> calls = 0;  // lanes and autograd's thread of the device call it
    const auto failing = function_layer("failing", [&calls](const Tensors& x) {
        if (++calls == 5) {  // the first four are forwards
            throw 42;
        }
        return Tensors{x[0] * 1.0};
    });
    GPipe pipe = autograd_pipeline({linear(6, 4), failing}, {"fake:0", "fake:1"}, Checkpoint::always);
    EXPECT_THROW(pipe.step({samples(8)}, {samples(8, 4)}, first_mean_square), int);
    ASSERT_TRUE(pipe.last_failure());
    EXPECT_EQ(pipe.last_failure()->layer_name, "failing");
    EXPECT_NO_THROW(pipe.step({samples(8)}, {samples(8, 4)}, first_mean_square));
}
}  // namespace
}  // namespace pipescope
