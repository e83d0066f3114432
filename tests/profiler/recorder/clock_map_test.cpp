#include "profiler/recorder/clock_map.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
ClockRecord clocks(std::int64_t realtime, std::int64_t monotonic) {
    return {realtime, monotonic, 0, 0};
}

TEST(ClockMap, FollowsTheDriftBetweenTwoReadings) {
    ClockMap map;
    map.add(clocks(1000, 100));
    map.add(clocks(2000, 1200));  // the wall clock runs slow: 1,100 ns for its 1,000
    EXPECT_EQ(map.monotonic_of(1000), 100);
    EXPECT_EQ(map.monotonic_of(1500), 650);
    EXPECT_EQ(map.monotonic_of(2000), 1200);
}

TEST(ClockMap, KeepsTheNearestDifferenceOutside) {
    ClockMap map;
    map.add(clocks(1000, 100));
    EXPECT_EQ(map.monotonic_of(990), 90);
    EXPECT_EQ(map.monotonic_of(1010), 110);
    map.add(clocks(2000, 1200));
    EXPECT_EQ(map.monotonic_of(2005), 1205);
}

TEST(ClockMap, SurvivesAWallClockThatIsSetBack) {
    ClockMap map;
    map.add(clocks(1000, 100));
    map.add(clocks(5000, 4100));
    map.add(clocks(2000, 4200));
    EXPECT_EQ(map.monotonic_of(2010), 4210);
}
}  // namespace
}  // namespace pipescope
