#include "schedule/core_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace pipescope {
namespace {
using ::testing::ElementsAre;

/// All lanes that can get a core now, in the order of the grants.
std::vector<std::size_t> granted(CoreQueue& queue) {
    std::vector<std::size_t> lanes;
    while (const auto grant = queue.grant(0)) {
        lanes.push_back(grant->lane);
    }
    return lanes;
}

void ask(CoreQueue& queue, const std::vector<std::size_t>& lanes) {
    for (const std::size_t lane : lanes) {
        queue.ask(lane);
    }
}

TEST(CoreQueue, GivesAsManyLanesACoreAsThereAreInTheOrderOfAsking) {
    CoreQueue queue(4, 2);
    EXPECT_FALSE(queue.grant(0).has_value()) << "nobody asked";
    ask(queue, {3, 0, 1});
    EXPECT_THAT(granted(queue), ElementsAre(3, 0));
    queue.give_back(0);
    EXPECT_THAT(granted(queue), ElementsAre(1));
    queue.give_back(0);
    EXPECT_THAT(granted(queue), ElementsAre()) << "a lane gives back only what it holds";
}

TEST(CoreQueue, PrefersTheLaneThatHadTheCoreLast) {
    CoreQueue queue(3, 2);
    ask(queue, {0, 1});
    const auto first = queue.grant(0);
    const auto second = queue.grant(0);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->core, second->core);
    EXPECT_LT(first->core, 2U);
    EXPECT_LT(second->core, 2U);
    EXPECT_TRUE(first->moves) << "to its first core";
    ask(queue, {2});
    queue.give_back(1);
    ask(queue, {1});
    const auto again = queue.grant(0);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->lane, 1U) << "lane 2 asked first, but that core was lane 1's";
    EXPECT_EQ(again->core, second->core);
    EXPECT_FALSE(again->moves);
}

TEST(CoreQueue, LeavesNoCoreIdleForThat) {
    CoreQueue queue(3, 2);
    ask(queue, {0, 1});
    granted(queue);
    queue.give_back(0);
    ask(queue, {2});
    const auto grant = queue.grant(0);
    ASSERT_TRUE(grant);
    EXPECT_EQ(grant->lane, 2U);
    EXPECT_TRUE(grant->moves);
}

TEST(CoreQueue, LetsALaneKeepItsCoreForASlice) {
    const double slice = std::chrono::duration<double, std::nano>(kCoreSlice).count();
    CoreQueue queue(2, 1);
    ask(queue, {0, 1});
    const double now = 10 * slice;
    ASSERT_TRUE(queue.grant(now));
    EXPECT_TRUE(queue.may_keep(0, now + slice / 2));
    EXPECT_FALSE(queue.may_keep(0, now + slice));
    EXPECT_FALSE(queue.may_keep(1, now)) << "it holds none";
    EXPECT_TRUE(queue.asks(1));
    EXPECT_FALSE(queue.asks(0));
}

TEST(CoreQueue, StartsAnewAsTheFirstTime) {
    CoreQueue queue(3, 2);
    ask(queue, {2, 1, 0});
    const auto first = queue.grant(0);
    queue.reset();
    EXPECT_FALSE(queue.may_keep(2, 0)) << "no lane holds a core";
    ask(queue, {2, 1, 0});
    const auto again = queue.grant(0);
    ASSERT_TRUE(first && again);
    EXPECT_EQ(again->lane, first->lane);
    EXPECT_EQ(again->core, first->core);
    EXPECT_TRUE(again->moves) << "no lane had that core before";
    EXPECT_THAT(granted(queue), ElementsAre(1));
}
}  // namespace
}  // namespace pipescope
