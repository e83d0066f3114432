#include "profiler/layers/repeats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace pipescope {
namespace {
Repeats repeats_of(const std::vector<std::vector<double>>& rounds) {
    Repeats repeats;
    for (const auto& round : rounds) {
        repeats.add(round);
    }
    return repeats;
}

TEST(Repeats, MedianIgnoresOneSlowRound) {
    EXPECT_EQ(repeats_of({{3}, {1000}, {1}}).median(0), 3);
    EXPECT_EQ(repeats_of({{4}, {2}}).median(0), 3);
}

// In every round another layer is disturbed: no median shows it, each sum does.
TEST(Repeats, MediansAreScaledToTheMedianSum) {
    const Repeats repeats = repeats_of({{16, 20, 30}, {10, 26, 30}, {10, 20, 36}});
    EXPECT_EQ(repeats.median(1), 20);
    const std::vector<double> medians = repeats.medians_to_sum();
    ASSERT_EQ(medians.size(), 3U);
    EXPECT_DOUBLE_EQ(medians[0], 11);  // 66 over 60
    EXPECT_DOUBLE_EQ(medians[1], 22);
    EXPECT_DOUBLE_EQ(medians[2], 33);
    EXPECT_EQ(repeats_of({{0, 0}}).medians_to_sum(), (std::vector<double>{0, 0}));
}

TEST(Repeats, SpreadIsRelativeToTheMean) {
    const Repeats repeats = repeats_of({{8, 0}, {12, 0}});
    EXPECT_DOUBLE_EQ(repeats.coefficient_of_variation(0), std::sqrt(8.0) / 10);
    EXPECT_EQ(repeats.coefficient_of_variation(1), 0);
}

// Both layers take a tenth more in the second round and a tenth less in the third; then each on its own.
TEST(Repeats, CommonVariationIsWhatLayersShare) {
    // Sums 20, 22, 18: variance 4; the layers' own 1 each.
    EXPECT_DOUBLE_EQ(repeats_of({{10, 10}, {11, 11}, {9, 9}}).common_variation(), std::sqrt(2.0) / 20);
    EXPECT_EQ(repeats_of({{10, 10}, {11, 9}, {9, 11}}).common_variation(), 0);
    EXPECT_EQ(repeats_of({{10, 10}}).common_variation(), 0);
}

// Deviations sqrt(8) and sqrt(2) over sqrt(2) rounds: errors 2 and 1, over means 10 and 5.
TEST(Repeats, ErrorCountsEveryLayerByItsShare) {
    EXPECT_DOUBLE_EQ(repeats_of({{8, 6}, {12, 4}}).relative_error(), 3.0 / 15);
    EXPECT_TRUE(std::isinf(repeats_of({{8, 6}}).relative_error()));
}

TEST(Repeats, WarmUpIsForgottenUnlessItIsAllThereIs) {
    Repeats repeats = repeats_of({{100}, {1}, {3}});
    repeats.drop_warm_up();
    EXPECT_EQ(repeats.median(0), 2);
    Repeats single = repeats_of({{100}});
    single.drop_warm_up();
    EXPECT_EQ(single.median(0), 100);
}
/// How many rounds of two layers are run whose times are those of `times_of` a round, each taking a second.
std::size_t rounds_until_good(const RepeatGoal& goal, const std::function<std::vector<double>(std::size_t)>& times_of) {
    Repeats repeats;
    double now = 0;
    return repeat_rounds(
        goal, [&] { return now; },
        [&](std::size_t round) {
            now += 1;
            repeats.add(times_of(round));
        },
        [&] { return repeats.relative_error(); });
}

std::vector<double> steady(std::size_t) {
    return {100, 200};
}
/// The second layer takes 40 % longer every other time.
std::vector<double> noisy(std::size_t round) {
    return {100, round % 2 == 0 ? 200.0 : 280.0};
}

TEST(RepeatRounds, EndAfterTheFewestWhereLayersAreSteady) {
    EXPECT_EQ(rounds_until_good({.target_error = 0.02, .time_limit_s = 1e6, .fewest = 5}, steady), 5U);
    EXPECT_EQ(rounds_until_good({.target_error = 0.02, .time_limit_s = 1e6, .fewest = 9}, steady), 9U);
}

// After n rounds the second layer's deviation is 40 and a little, the mean of both 340: 40 / (340 sqrt(n)) is below 2 %
// from 35 rounds on.
TEST(RepeatRounds, GoOnUntilANoisyLayersEstimateIsGoodEnough) {
    const RepeatGoal goal{.target_error = 0.02, .time_limit_s = 1e6};
    const std::size_t rounds = rounds_until_good(goal, noisy);
    EXPECT_GE(rounds, 35U);
    EXPECT_LE(rounds, 37U);
    EXPECT_GT(rounds_until_good({.target_error = 0.01, .time_limit_s = 1e6}, noisy), 3 * rounds);
}

TEST(RepeatRounds, EndWhereTheNextOneWouldBeLate) {
    EXPECT_EQ(rounds_until_good({.target_error = 1e-9, .time_limit_s = 10}, noisy), 10U);
    EXPECT_EQ(rounds_until_good({.target_error = 1e-9, .time_limit_s = 1e-9}, noisy), 1U);
    EXPECT_EQ(rounds_until_good({.target_error = 1e-9, .time_limit_s = 1e6, .most = 50}, noisy), 50U);
}
}  // namespace
}  // namespace pipescope
