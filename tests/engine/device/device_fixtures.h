#pragma once

#include "tests/engine/device/skip_chain.h"
#include "tests/fake_accelerator/fake_device.h"

#include <c10/core/Device.h>
#include <gmock/gmock.h>

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

/// One device, two devices, one device twice, and with the CPU first, last and in between.
inline const std::vector<Names> kLanes = {{"fake:0"},
                                          {"fake:0", "fake:1"},
                                          {"fake:0", "fake:0"},
                                          {"cpu", "fake:0"},
                                          {"fake:1", "cpu"},
                                          {"cpu", "fake:0", "fake:0", "fake:1"},
                                          {"fake:1", "cpu", "cpu", "fake:0"}};

/// Slow kernels and slower copies: code that does not wait reads NaN.
void be_slow();

/// Checks that a layer's exception reaches the caller of step(), and that the pipeline created by `make` on two lanes
/// can then continue to train.
void expect_use_after_an_exception(const std::function<GPipe(const std::vector<LayerSpec>&)>& make);

/// The caller may overwrite its pinned input after forward() has returned, however long the copies take.
void expect_done_with_the_input(GPipe& pipe);
}  // namespace pipescope::testing_support
