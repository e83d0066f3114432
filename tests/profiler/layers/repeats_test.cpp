#include "profiler/layers/repeats.h"
#include "profiler/layers/size_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace pipescope {
namespace {
Repeats repeats_of(const std::vector<std::vector<double>>& rounds) {
    Repeats repeats;
    for (const auto& round : rounds) {
        repeats.add(round);
    }
    return repeats;
}

// A run has disturbances too, so they count in every mean. The layers' means then sum to the mean pass.
TEST(Repeats, MeansSumToTheMeanOfTheSums) {
    const Repeats repeats = repeats_of({{3, 10}, {1000, 10}, {1, 40}});
    EXPECT_DOUBLE_EQ(repeats.mean(0), 1004.0 / 3);
    EXPECT_DOUBLE_EQ(repeats.mean(0) + repeats.mean(1), repeats.mean_sum());
    EXPECT_EQ(repeats.sums(), (std::vector<double>{13, 1010, 41}));
}

TEST(Repeats, DroppedRoundsAreForgotten) {
    Repeats repeats = repeats_of({{100}, {1}, {500}, {3}});
    repeats.drop(std::vector<std::size_t>{0, 2});
    EXPECT_EQ(repeats.sums(), (std::vector<double>{1, 3}));
}

TEST(Repeats, SpreadIsRelativeToTheMean) {
    const Repeats repeats = repeats_of({{8, 0}, {12, 0}});
    EXPECT_DOUBLE_EQ(repeats.coefficient_of_variation(0), std::sqrt(8.0) / 10);
    EXPECT_EQ(repeats.coefficient_of_variation(1), 0);
}

// Both layers take a tenth more in the second round and a tenth less in the third. Then each varies on its own.
TEST(Repeats, CommonVariationIsWhatLayersShare) {
    // Sums 20, 22, 18: variance 4; the layers' own 1 each.
    EXPECT_DOUBLE_EQ(repeats_of({{10, 10}, {11, 11}, {9, 9}}).common_variation(), std::sqrt(2.0) / 20);
    EXPECT_EQ(repeats_of({{10, 10}, {11, 9}, {9, 11}}).common_variation(), 0);
    EXPECT_EQ(repeats_of({{10, 10}}).common_variation(), 0);
}

// Deviations sqrt(8) and sqrt(2) over two rounds: errors 2 and 1, means 10 and 5.
TEST(Repeats, ErrorCountsEveryLayerByItsShare) {
    EXPECT_DOUBLE_EQ(repeats_of({{8, 6}, {12, 4}}).relative_error(), 3.0 / 15);
    EXPECT_TRUE(std::isinf(repeats_of({{8, 6}}).relative_error()));
}

// Twenty alternating values, and the same ones sorted: the second half is slow for a whole second.
TEST(StandardError, KnowsThatNeighboursAreAlike) {
    std::vector<double> alternating, in_blocks;
    for (int k = 0; k < 40; ++k) {
        alternating.push_back(k % 2 == 0 ? 90 : 110);
        in_blocks.push_back(k < 20 ? 90 : 110);
    }
    EXPECT_NEAR(standard_error(alternating), 10 / std::sqrt(39.0), 1e-9);
    EXPECT_NEAR(standard_error(in_blocks), 10 / std::sqrt(9.0), 1e-9);
    EXPECT_TRUE(std::isinf(standard_error(std::vector<double>{5})));
    EXPECT_EQ(standard_error(std::vector<double>{5, 5, 5}), 0);
}

TEST(Standstills, AreLongerThanAnyDisturbanceOfARun) {
    constexpr double kSecond = 1e9;
    EXPECT_EQ(standstills(std::vector<double>{1e6, 5e6, 2 * kSecond, 1e6}), (std::vector<std::size_t>{2}));
    EXPECT_TRUE(standstills(std::vector<double>{1e6, 900e6, 1e6}).empty()) << "a disturbance, however large";
    EXPECT_TRUE(standstills(std::vector<double>{5 * kSecond, 9 * kSecond, 5 * kSecond}).empty()) << "a slow pass";
    EXPECT_TRUE(standstills({}).empty());
}

/// Passes of two lanes, each the product of a factor that lasts for ten passes and a new one.
struct TwoLanes {
    std::vector<double> mine, others;

    TwoLanes(double alone, double together, double new_each) {
        std::mt19937 random(3);
        std::normal_distribution<double> normal;
        for (int block = 0; block < 300; ++block) {
            const double both = 1 + together * normal(random);
            const double mine_alone = 1 + alone * normal(random);
            const double others_alone = 1 + alone * normal(random);
            for (int k = 0; k < 10; ++k) {
                mine.push_back(1e6 * both * mine_alone * (1 + new_each * normal(random)));
                others.push_back(3e6 * both * others_alone * (1 + new_each * normal(random)));
            }
        }
    }
};

TEST(LaneVariation, IsWhatLastsAndIsNotSharedWithTheOthers) {
    const auto of = [](const TwoLanes& lanes) { return lane_variation(lanes.mine, lanes.others, 1); };
    EXPECT_NEAR(of(TwoLanes(0.05, 0, 0.02)), 0.05, 0.012);
    EXPECT_LT(of(TwoLanes(0, 0.05, 0.02)), 0.015);
    EXPECT_LT(of(TwoLanes(0, 0, 0.2)), 0.02);
    EXPECT_NEAR(of(TwoLanes(0.05, 0.05, 0.02)), 0.05, 0.02);
}

// The mean of three others varies less than one, so more of the difference is the lane's own.
TEST(LaneVariation, KnowsHowManyOthersThereAre) {
    const TwoLanes lanes(0.05, 0.1, 0.02);
    EXPECT_NEAR(lane_variation(lanes.mine, lanes.others, 3) / lane_variation(lanes.mine, lanes.others, 1),
                std::sqrt(1.5), 1e-9);
}

TEST(SizeTimes, AverageOverTheLanes) {
    SizeTimes times;
    for (int k = 0; k < 4; ++k) {
        times.add({{1e6}, {1e6}, {2e6}, 1e6});
    }
    times.finish();
    times.average_with({});
    EXPECT_DOUBLE_EQ(times.pass_ns(), 4e6);
    times.average_with({5e6, 6e6});
    EXPECT_DOUBLE_EQ(times.pass_ns(), 5e6);
    EXPECT_DOUBLE_EQ(times.forward_ns(0), 1.25e6);
    EXPECT_DOUBLE_EQ(times.backward_ns(0), 2.5e6);
}

TEST(LaneVariation, IsNothingWhereTooLittleIsKnown) {
    TwoLanes lanes(0.05, 0, 0.02);
    EXPECT_EQ(lane_variation({}, {}, 1), 0);
    lanes.others.assign(lanes.others.size(), std::nan(""));
    EXPECT_EQ(lane_variation(lanes.mine, lanes.others, 1), 0);
}

LayerTimes pass_of(double ns) {
    return {{ns}, {ns}, {2 * ns}, ns};
}

TEST(SizeTimes, ForgetTheWarmUpAndStandstillsAndKeepDisturbances) {
    SizeTimes times;
    for (const double ns : {9e6, 1e6, 1e6, 3e9, 5e6, 1e6}) {
        times.add(pass_of(ns));
    }
    times.finish();
    EXPECT_DOUBLE_EQ(times.forward_ns(0), 2e6);
    EXPECT_DOUBLE_EQ(times.backward_ns(0), 4e6);
    EXPECT_DOUBLE_EQ(times.loss_ns(), 2e6);
    EXPECT_DOUBLE_EQ(times.pass_ns(), 8e6);
    SizeTimes single;
    single.add(pass_of(7));
    single.finish();
    EXPECT_EQ(single.forward_ns(0), 7);
}

/// Number of rounds of two layers until the goal is reached, with times from `times_of` and a second per round.
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
/// The second layer takes 40 % longer in every other round.
std::vector<double> noisy(std::size_t round) {
    return {100, round % 2 == 0 ? 200.0 : 280.0};
}

TEST(RepeatRounds, EndAfterTheFewestWhereLayersAreSteady) {
    EXPECT_EQ(rounds_until_good({.target_error = 0.02, .time_limit_s = 1e6, .long_enough_s = 1e6}, steady), 20U);
    EXPECT_EQ(rounds_until_good({.target_error = 0.02, .time_limit_s = 1e6, .fewest = 9}, steady), 5U)
        << "five rounds were five seconds, which is long enough";
    EXPECT_EQ(rounds_until_good({.target_error = 0.02, .time_limit_s = 1e6, .long_enough_s = 7}, steady), 7U);
}

// After n rounds the second layer's deviation is slightly above 40, and the sum of both means 340: 40 / (340 sqrt(n))
// is below 2 % from 35 rounds on.
TEST(RepeatRounds, GoOnUntilANoisyLayersEstimateIsGoodEnough) {
    const RepeatGoal goal{.target_error = 0.02, .time_limit_s = 1e6};
    const std::size_t rounds = rounds_until_good(goal, noisy);
    EXPECT_GE(rounds, 34U);
    EXPECT_LE(rounds, 40U);
    EXPECT_GT(rounds_until_good({.target_error = 0.01, .time_limit_s = 1e6}, noisy), 3 * rounds);
}

// If slow times last for seconds, the same number of rounds gives a worse estimate than with independent times.
TEST(RepeatRounds, GoOnLongerWhereSlowTimesLast) {
    const RepeatGoal goal{.target_error = 0.02, .time_limit_s = 1e6, .long_enough_s = 1e6};
    const auto times_that_last = [](std::size_t rounds) {
        return [rounds, random = std::mt19937(4), slow = false](std::size_t round) mutable {
            slow = round % rounds == 0 ? random() % 2 == 0 : slow;
            return noisy(slow ? 1 : 0);
        };
    };
    EXPECT_GT(rounds_until_good(goal, times_that_last(8)), 2 * rounds_until_good(goal, times_that_last(1)));
}

TEST(RepeatRounds, EndWhereTheNextOneWouldBeLate) {
    EXPECT_EQ(rounds_until_good({.target_error = 1e-9, .time_limit_s = 10}, noisy), 10U);
    EXPECT_EQ(rounds_until_good({.target_error = 1e-9, .time_limit_s = 1e-9}, noisy), 1U);
    EXPECT_EQ(rounds_until_good({.target_error = 1e-9, .time_limit_s = 1e6, .most = 50}, noisy), 50U);
}
}  // namespace
}  // namespace pipescope
