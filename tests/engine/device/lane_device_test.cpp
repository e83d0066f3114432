#include "engine/device/lane_device.h"
#include "engine/cuda_runtime.h"
#include "engine/device_memory.h"
#include "engine/engine_error.h"
#include "tests/engine/device/device_fixtures.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace pipescope {
namespace {
using ::testing::HasSubstr;
using testing_support::DeviceTest;
using testing_support::on;

using LaneDeviceTest = DeviceTest;

TEST_F(LaneDeviceTest, KnowsTheDevicesOfThisProcess) {
    EXPECT_EQ(usable_device("cpu"), c10::Device(c10::kCPU));
    EXPECT_EQ(usable_device("fake:1"), c10::Device("fake:1"));
    EXPECT_EQ(usable_device("fake"), c10::Device("fake:0")) << "the current one";
}

TEST_F(LaneDeviceTest, RefusesOtherNamesAndSaysWhichThereAre) {
    EXPECT_THAT(thrown<EngineError>([] { usable_device("gpu0"); }),
                AllOf(HasSubstr("\"gpu0\" is not a device's name"), HasSubstr("fake:0, fake:1")));
    EXPECT_THAT(thrown<EngineError>([] { usable_device("fake:7"); }), HasSubstr("\"fake:7\" is not there"));
    EXPECT_THAT(thrown<EngineError>([] { usable_device("meta"); }), HasSubstr("does not compute"));
}

TEST_F(LaneDeviceTest, SaysWhatIsMissingForCuda) {
    if (load_cuda()) {
        GTEST_SKIP() << "this machine has CUDA devices";
    }
    EXPECT_THAT(thrown<EngineError>([] { usable_device("cuda:0"); }),
                AllOf(HasSubstr("\"cuda:0\" cannot be used"), HasSubstr(why_no_cuda())));
}

TEST_F(LaneDeviceTest, GivesEachLaneOfADeviceAStreamOfItsOwn) {
    const LaneDevice first(on(0));
    const LaneDevice second(on(0));
    EXPECT_NE(first.stream()->id(), second.stream()->id());
    EXPECT_FALSE(LaneDevice(c10::kCPU).is_accelerator());
}

TEST_F(LaneDeviceTest, ComputesOnItsStream) {
    const LaneDevice lane(on(1));
    fake_accelerator::behaviour().holds_kernels = true;
    at::Tensor x;
    {
        const OnLaneDevice here(lane);
        x = torch::ones({4}, torch::TensorOptions().device("fake")) + 1;
    }
    EXPECT_EQ(x.device(), on(1));
    EXPECT_FALSE(fake_accelerator::stream_of(*lane.stream()).is_idle());
    EXPECT_TRUE(fake_accelerator::current_stream(1).is_idle()) << "the caller's stream is current again";
    fake_accelerator::release();
    lane.record().block(current_stream(on(1)));
    EXPECT_EQ(x.sum().item<double>(), 8);
}

TEST_F(LaneDeviceTest, MakesACpuLaneWaitForADevice) {
    const LaneDevice lane(on(0));
    fake_accelerator::behaviour().holds_kernels = true;
    fake_accelerator::behaviour().kernel_delay_us = 10'000;  // once it goes on
    {
        const OnLaneDevice here(lane);
        torch::ones({4}, torch::TensorOptions().device("fake"));
    }
    const StreamEvent done = lane.record();
    EXPECT_FALSE(done.has_passed());
    fake_accelerator::release();
    LaneDevice(c10::kCPU).wait(done);
    EXPECT_TRUE(done.has_passed());
}

TEST_F(LaneDeviceTest, HasNothingToWaitForOnTheCpu) {
    const StreamEvent done = LaneDevice(c10::kCPU).record();
    EXPECT_FALSE(done);
    EXPECT_TRUE(done.has_passed());
}

TEST_F(LaneDeviceTest, MovesATensorWithoutMakingItAnother) {
    at::Tensor parameter = torch::ones({3}, torch::kFloat64).requires_grad_();
    parameter.pow(2).sum().backward();
    const at::Tensor same = parameter;
    move_tensor(parameter, on(1));
    EXPECT_EQ(same.device(), on(1));
    EXPECT_EQ(same.grad().device(), on(1));
    EXPECT_TRUE(torch::equal(same.grad().cpu(), torch::full({3}, 2.0, torch::kFloat64)));
    (same * 3).sum().backward();
    EXPECT_TRUE(torch::equal(same.grad().cpu(), torch::full({3}, 5.0, torch::kFloat64))) << "gradients still arrive";
}

TEST_F(LaneDeviceTest, TellsADevicesMemory) {
    EXPECT_FALSE(device_memory(c10::kCPU));
    reset_device_peaks(on(0));
    const auto before = device_memory(on(0));
    ASSERT_TRUE(before);
    torch::empty({1024}, torch::TensorOptions().dtype(torch::kFloat64).device(on(0)));
    const auto after = device_memory(on(0));
    EXPECT_EQ(after->allocated, before->allocated);
    EXPECT_EQ(after->allocated_peak, before->allocated + 8192);
    EXPECT_GT(after->total, after->free);
}
}  // namespace
}  // namespace pipescope
