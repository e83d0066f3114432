#include "gui/what_if/value_slider.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
void expectAscending(const std::vector<double>& stops) {
    EXPECT_TRUE(std::is_sorted(stops.begin(), stops.end(), std::less_equal<>()) ||
                std::adjacent_find(stops.begin(), stops.end(), std::greater_equal<>()) == stops.end());
}

TEST(SliderStops, HoldEveryCountUpTo64AndEveryPowerOfTwoBeyond) {
    const std::vector<double> stops = wholeStops(1, 4096);
    expectAscending(stops);
    for (int value = 1; value <= 64; ++value) {
        EXPECT_EQ(stops[static_cast<std::size_t>(value - 1)], value);
    }
    for (int power = 64; power <= 4096; power *= 2) {
        EXPECT_TRUE(std::binary_search(stops.begin(), stops.end(), power)) << power;
    }
    EXPECT_LT(stops.size(), 200U);
    EXPECT_EQ(wholeStops(1, 1), (std::vector<double>{1}));
    EXPECT_EQ(wholeStops(1, 3), (std::vector<double>{1, 2, 3}));
}

TEST(SliderStops, AreEvenOnALogarithmicScale) {
    for (const std::vector<double>& stops : {decadeStops(0.01, 1000), doublingStops(1.0 / 64, 256)}) {
        expectAscending(stops);
        for (std::size_t k = 1; k < stops.size(); ++k) {
            EXPECT_LT(stops[k] / stops[k - 1], 1.26);
            EXPECT_GT(stops[k] / stops[k - 1], 1.05);
        }
    }
    EXPECT_EQ(decadeStops(0.01, 1000).back(), 1000);
    EXPECT_EQ(doublingStops(1, 2), (std::vector<double>{1, 1.25, 1.5, 1.75, 2}));
}

TEST(SliderStops, FindTheNearestByRatio) {
    const std::vector<double> stops{0, 1, 10, 100};
    EXPECT_EQ(nearestStop(stops, -5), 0U);
    EXPECT_EQ(nearestStop(stops, 0.4), 0U);
    EXPECT_EQ(nearestStop(stops, 3), 1U);
    EXPECT_EQ(nearestStop(stops, 3.3), 2U);
    EXPECT_EQ(nearestStop(stops, 1e9), 3U);
    for (std::size_t k = 0; k < stops.size(); ++k) {
        EXPECT_EQ(nearestStop(stops, stops[k]), k);
    }
}
}  // namespace
}  // namespace pipescope
