#include "base/stop_check.h"

#include <gtest/gtest.h>

#include <chrono>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

/// Runs a long loop for as long as nobody stops it, at most 10 s.
void loop() {
    const auto end = Clock::now() + std::chrono::seconds(10);
    while (Clock::now() < end) {
        check_stop();
    }
}

TEST(StopCheck, EndsALoopOfItsThreadWhenItsCallerSaysSo) {
    int asked = 0;
    const StopCheck check([&] { return ++asked < 3; });
    EXPECT_THROW(loop(), ComputationStopped);
    EXPECT_EQ(asked, 3);
}

TEST(StopCheck, AsksTheInnermostAndThenTheOuterOne) {
    int outer = 0;
    int inner = 0;
    const StopCheck check([&] { return ++outer < 2; });
    {
        const StopCheck own([&] { return ++inner < 2; });
        EXPECT_THROW(loop(), ComputationStopped);
    }
    EXPECT_EQ(outer, 0);
    EXPECT_THROW(loop(), ComputationStopped);
    EXPECT_EQ(inner, 2);
}

TEST(StopCheck, CostsNothingWhereNobodyAsks) {
    for (int round = 0; round < 1000; ++round) {
        check_stop();
    }
}
}  // namespace
}  // namespace pipescope
