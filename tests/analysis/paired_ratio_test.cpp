#include "analysis/paired_ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pipescope {
namespace {
using Values = std::vector<double>;

// Ratios 1/2, 1 and 1/4 have the logarithms -1, 0 and -2 times log 2: mean -log 2, deviation log 2. t(2) is 4.303.
TEST(PairedRatio, IsAPairedTestOfLogarithms) {
    const PairedRatio found = paired_ratio(Values{2, 8, 4}, Values{1, 8, 1});
    const double half = 4.303 * std::log(2) / std::sqrt(3);
    EXPECT_NEAR(found.ratio, 0.5, 1e-12);
    EXPECT_NEAR(found.deviation, std::log(2), 1e-12);
    EXPECT_NEAR(found.low, std::exp(-std::log(2) - half), 1e-12);
    EXPECT_NEAR(found.high, std::exp(-std::log(2) + half), 1e-12);
    EXPECT_NEAR(found.least_change(), std::exp(half) - 1, 1e-12);
    EXPECT_FALSE(found.is_distinct());
}

TEST(PairedRatio, ForgetsWhatBothValuesOfAPairShare) {
    const Values machine{100, 150, 70, 210};  // its speed changes by a factor of three
    Values after;
    for (std::size_t k = 0; k < machine.size(); ++k) {
        after.push_back(machine[k] * (k % 2 == 0 ? 0.95 : 0.96));
    }
    const PairedRatio found = paired_ratio(machine, after);
    EXPECT_TRUE(found.is_distinct());
    EXPECT_LT(found.high, 0.97);
    EXPECT_GT(found.low, 0.93);
}

TEST(PairedRatio, OfOnePairDecidesNothing) {
    const PairedRatio found = paired_ratio(Values{2}, Values{1});
    EXPECT_DOUBLE_EQ(found.ratio, 0.5);
    EXPECT_FALSE(found.is_distinct());
    EXPECT_EQ(found.pairs_to_decide(), std::nullopt);
}

TEST(PairedRatio, SaysHowManyPairsWouldDecide) {
    // Logarithms of +1 % and -3 % in turns: mean near -1 %, deviation near 2.2 %.
    const PairedRatio found = paired_ratio(Values{100, 100, 100, 100}, Values{101, 97, 101, 97});
    ASSERT_FALSE(found.is_distinct());
    ASSERT_TRUE(found.pairs_to_decide());
    const int n = *found.pairs_to_decide();
    EXPECT_GT(n, 4);
    // Near the textbook's ((1.96 + 0.84) s / m)^2, a little more for the t distribution.
    const double expected = std::pow(2.8 * found.deviation / std::log(found.ratio), 2);
    EXPECT_GE(n, expected);
    EXPECT_LE(n, expected + 5);
}

TEST(PairedRatio, NamesNoNumberOfPairsForNoDifference) {
    EXPECT_EQ(paired_ratio(Values{100, 100}, Values{110, 100 / 1.1}).pairs_to_decide(), std::nullopt);
    EXPECT_EQ(paired_ratio(Values{100, 100, 100}, Values{50, 51, 52}).pairs_to_decide(), std::nullopt) << "distinct";
}

TEST(PairedRatio, FindsADifferenceInOneOfTwentyChecksOfEqualRuns) {
    std::mt19937 random(1);
    std::lognormal_distribution<double> noise(0, 0.05);
    int found = 0;
    for (int check = 0; check < 2000; ++check) {
        Values before;
        Values after;
        for (int k = 0; k < 5; ++k) {
            before.push_back(noise(random));
            after.push_back(noise(random));
        }
        found += paired_ratio(before, after).is_distinct() ? 1 : 0;
    }
    EXPECT_NEAR(found / 2000.0, 0.05, 0.02);
}
}  // namespace
}  // namespace pipescope
