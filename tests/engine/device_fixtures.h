#pragma once

#include "tests/fake_accelerator/fake_device.h"

#include <c10/core/Device.h>
#include <gtest/gtest.h>

namespace pipescope::testing_support {
inline c10::Device on(c10::DeviceIndex device) {
    return {c10::DeviceType::PrivateUse1, device};
}

/// Leaves the fake accelerator as quick and correct as it was.
class DeviceTest : public ::testing::Test {
protected:
    void SetUp() override { fake_accelerator::install(); }
    void TearDown() override {
        fake_accelerator::behaviour().kernel_delay_us = 0;
        fake_accelerator::behaviour().copy_delay_us = 0;
        fake_accelerator::behaviour().ignores_waits = false;
        fake_accelerator::synchronize();
    }
};
}  // namespace pipescope::testing_support
