#include "profiler/layers/lane_slowdown.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(LaneSlowdown, ComparesEachPassWithTheOneBeforeIt) {
    LaneSlowdown slowdown(2);
    EXPECT_EQ(slowdown.next_busy(), 1);
    slowdown.add(100, 120);
    slowdown.add(1000, 1200);  // the machine went slow for both
    slowdown.add(900, 120);    // and once for one of them
    EXPECT_EQ(slowdown.slowdown(), (PerLane{1, 1.2}));
}

TEST(LaneSlowdown, TakesTheNumbersOfLanesInTurn) {
    LaneSlowdown slowdown(4);
    EXPECT_EQ(slowdown.next_busy(), 1);
    slowdown.add(100, 200);
    EXPECT_EQ(slowdown.next_busy(), 2);
    slowdown.add(125, 200);
    EXPECT_EQ(slowdown.next_busy(), 3);
    slowdown.add(150, 200);
    EXPECT_EQ(slowdown.next_busy(), 1);
    EXPECT_EQ(slowdown.slowdown(), (PerLane{1, 1.25, 1.5, 2}));
}

TEST(LaneSlowdown, DrawsALineOverWhatWasNotMeasured) {
    LaneSlowdown slowdown(4);
    slowdown.add(100, 250);
    EXPECT_EQ(slowdown.slowdown(), (PerLane{1, 1.5, 2, 2.5}));
}

TEST(LaneSlowdown, TakesNoLaneToQuickenAnother) {
    LaneSlowdown slowdown(3);
    slowdown.add(100, 110);
    slowdown.add(120, 110);
    EXPECT_EQ(slowdown.slowdown(), (PerLane{1, 1.2, 1.2}));
}

TEST(LaneSlowdown, SaysNothingWithoutALaneAlone) {
    EXPECT_TRUE(LaneSlowdown(1).slowdown().empty());
    LaneSlowdown slowdown(2);
    EXPECT_TRUE(slowdown.slowdown().empty());
    slowdown.add(0, 5);
    EXPECT_TRUE(slowdown.slowdown().empty());
}
}  // namespace
}  // namespace pipescope
