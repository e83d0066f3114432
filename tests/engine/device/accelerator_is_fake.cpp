// Makes the tests of accelerators run on the fake one, slowly: code that does not wait reads NaN. Its search for races
// is for other tests: it does not know what the host's waits order, as for a lane on the CPU between two on a device.

#include "tests/fake_accelerator/fake_device.h"
#include "tests/fake_accelerator/fake_races.h"
#include "tests/fake_accelerator/fake_stream.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
class SlowDevice final : public ::testing::EmptyTestEventListener {
    void OnTestStart(const ::testing::TestInfo&) override {
        fake_accelerator::behaviour().kernel_delay_us = 50;
        fake_accelerator::behaviour().copy_delay_us = 1'000;
    }
    void OnTestEnd(const ::testing::TestInfo&) override {
        fake_accelerator::behaviour().reset();
        fake_accelerator::synchronize();
        fake_accelerator::take_races();
    }
};

[[maybe_unused]] const bool is_slow = [] {
    fake_accelerator::install();
    ::testing::UnitTest::GetInstance()->listeners().Append(new SlowDevice);  // GoogleTest deletes it
    return true;
}();
}  // namespace
}  // namespace pipescope
