#include "profiler/memory/device_listening.h"

#include "base/error.h"
#include "profiler/memory/allocation_log.h"
#include "profiler/memory/charged_block.h"
#include "profiler/memory/device_blocks.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/fake_accelerator/fake_device.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/torch.h>

#include <memory>
#include <thread>

namespace pipescope {
namespace {
using namespace tracking_allocator;
using testing::AllOf;
using testing::HasSubstr;

const c10::Device kDevice("fake:0");
constexpr int kOwner = 3;
constexpr Bytes kBlock = 512;  // what the fake's allocator rounds small tensors up to

/// A tensor of one block.
at::Tensor on_device() {
    return torch::empty({25}, kDevice);
}

class DeviceListeningTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        fake_accelerator::install();
        install();
    }
    void SetUp() override { ASSERT_EQ(allocated(kOwner), 0) << "the test before leaked"; }
    void TearDown() override {
        fake_accelerator::synchronize();
        EXPECT_FALSE(DeviceListening::hears());
    }

    const Charge charge_{.owner = kOwner};
};

/// Another listener of torch's memory profiler, like torch's own profiler.
class OtherListener final : public c10::MemoryReportingInfoBase {
public:
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
        heard += bytes;
    }
    bool memoryProfilingEnabled() const override { return true; }

    std::int64_t heard = 0;
};

TEST_F(DeviceListeningTest, ChargesBlocksAsTheAllocatorRoundsThem) {
    const DeviceListening listening(charge_);
    {
        const at::Tensor small = on_device();
        EXPECT_EQ(allocated(kOwner), kBlock);
        const at::Tensor larger = torch::empty({129}, kDevice);
        EXPECT_EQ(allocated(kOwner), 3 * kBlock);
    }
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, ChargesTheThreadsOwnerWhereNoneIsGiven) {
    const DeviceListening listening;
    const int before = set_owner(kOwner);
    at::Tensor tensor = on_device();
    set_owner(before);
    const at::Tensor nobodys = on_device();
    EXPECT_EQ(allocated(kOwner), kBlock);
    tensor = at::Tensor();
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, HearsWhatAutogradsThreadTakesAndFrees) {
    const DeviceListening listening(charge_);
    {
        const at::Tensor x = torch::ones({25}, kDevice).requires_grad_();
        at::Tensor y = (x * 2).tanh();
        EXPECT_EQ(allocated(kOwner), 2 * kBlock) << "the input, and the output, which tanh saves";
        y.backward(torch::ones_like(y));
        y = at::Tensor();
        EXPECT_EQ(allocated(kOwner), 2 * kBlock) << "the input and its gradient";
    }
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, NoticesAnUnheardFreeWhenTheAddressIsGivenOutAgain) {
    at::Tensor tensor;
    const void* address = nullptr;
    {
        const DeviceListening listening(charge_);
        tensor = on_device();
        address = tensor.data_ptr();
    }
    tensor = at::Tensor();
    EXPECT_EQ(allocated(kOwner), kBlock) << "nobody listened";
    const DeviceListening listening(charge_);
    tensor = on_device();
    ASSERT_EQ(tensor.data_ptr(), address);
    EXPECT_EQ(allocated(kOwner), kBlock);
    tensor = at::Tensor();
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, NoticesABlockThatTheAllocatorMergedOrSplitMeanwhile) {
    const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
    device_blocks::taken(kDevice, at(4096), 1024, charge_);
    device_blocks::taken(kDevice, at(5120), 1024, charge_);
    device_blocks::taken(c10::Device("fake:1"), at(4608), 512, charge_);
    device_blocks::taken(kDevice, at(4608), 1024, charge_);  // lies in both
    EXPECT_EQ(allocated(kOwner), 512 + 1024);
    device_blocks::taken(kDevice, at(5632), 512, charge_);  // right behind it
    EXPECT_EQ(allocated(kOwner), 512 + 1024 + 512);
    device_blocks::freed(kDevice, at(4096), nullptr);
    device_blocks::freed(kDevice, at(4608), nullptr);
    device_blocks::freed(kDevice, at(5632), nullptr);
    EXPECT_EQ(allocated(kOwner), 512);
    device_blocks::freed(c10::Device("fake:1"), at(4608), nullptr);
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, KnowsFromATensorItSawThatItWasFreedUnheard) {
    {
        const at::Tensor parameter = on_device();  // from before anybody listened
        recharge(parameter, kOwner, MemoryCategory::parameters);
        recharge(parameter.view({5, 5}), kOwner, MemoryCategory::parameters);
        EXPECT_EQ(allocated(kOwner), 100) << "its own bytes";
    }
    EXPECT_EQ(allocated(kOwner), 100);
    device_blocks::sweep();
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, CreditsWhatIsFreedWhileAnotherStreamUsesItAtOnce) {
    const DeviceListening listening(charge_);
    at::Tensor tensor = on_device();
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    guard->recordDataPtrOnStream(tensor.storage().data_ptr(), guard->getStreamFromGlobalPool(kDevice));
    tensor = at::Tensor();
    EXPECT_EQ(allocated(kOwner), 0);
}

TEST_F(DeviceListeningTest, LeavesThePlaceToAProfilerThatRuns) {
    const auto other = std::make_shared<OtherListener>();
    const c10::DebugInfoGuard running(c10::DebugInfoKind::PROFILER_STATE, other);
    {
        const DeviceListening listening(charge_);
        EXPECT_FALSE(DeviceListening::hears());
        const at::Tensor tensor = on_device();
        EXPECT_EQ(other->heard, kBlock);
        EXPECT_EQ(allocated(kOwner), 0);
    }
    EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), other.get());
    EXPECT_THAT(thrown<Error>([] { const AllocationLog log(kDevice); }),
                AllOf(HasSubstr("fake:0"), HasSubstr("end that profiler first")));
}

TEST_F(DeviceListeningTest, MakesRoomForAProfilerThatStartsMeanwhile) {
    const auto other = std::make_shared<OtherListener>();
    const DeviceListening listening(charge_);
    EXPECT_FALSE(torch::profiler::impl::profilerEnabled()) << "or torch's own would refuse to start";
    {
        const c10::DebugInfoGuard running(c10::DebugInfoKind::PROFILER_STATE, other);
        EXPECT_FALSE(DeviceListening::hears());
        const at::Tensor tensor = on_device();
        EXPECT_EQ(other->heard, kBlock);
        EXPECT_EQ(allocated(kOwner), 0);
    }
    EXPECT_TRUE(DeviceListening::hears());
}

TEST_F(DeviceListeningTest, LeavesAProfilerAloneThatStartedMeanwhileAndStillRuns) {
    const auto other = std::make_shared<OtherListener>();
    {
        const DeviceListening listening(charge_);
        c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, other);
    }
    EXPECT_EQ(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE), other.get());
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(nullptr);
}

TEST_F(DeviceListeningTest, ChargesWhatALaneBringsOutsideItsTasksAsBoundary) {
    std::thread([] {
        const DeviceListening listening;
        charge_inputs_to(kOwner);
        at::Tensor input = on_device();
        EXPECT_EQ(account(kOwner).composition()[MemoryCategory::boundary], kBlock);
        input = at::Tensor();
        EXPECT_EQ(allocated(kOwner), 0);
    }).join();
}

TEST_F(DeviceListeningTest, ALogWritesDownTheDevicesBlocksAndNotTheHosts) {
    AllocationLog log(kDevice);
    const at::Tensor kept = on_device();
    on_device();
    torch::empty({25});
    const std::vector<AllocationEvent> events = log.take();
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0].block, 1);
    EXPECT_EQ(events[0].bytes, kBlock);
    EXPECT_EQ(events[1].block, 2);
    EXPECT_EQ(events[2].block, -2);
    EXPECT_EQ(log.block_of(kept), 1);
}

TEST_F(DeviceListeningTest, WhatALogSawIsForgottenWithIt) {
    at::Tensor kept;
    const int before = set_owner(kOwner);
    {
        const AllocationLog log(kDevice);
        kept = on_device();
        EXPECT_EQ(allocated(kOwner), kBlock);
    }
    set_owner(before);
    EXPECT_EQ(allocated(kOwner), 0);
}
}  // namespace
}  // namespace pipescope
