#include "analysis/mean_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pipescope {
namespace {
using Values = std::vector<double>;

// Means 2 and 5, variances 1 and 1, three values each: s^2 / n = 1/3 each, so the standard error is sqrt(2/3), with
// (2/3)^2 / (2 (1/3)^2 / 2) = 4 degrees of freedom.
TEST(MeanDifference, IsWelchsTest) {
    const MeanDifference difference = mean_difference(Values{1, 2, 3}, Values{4, 5, 6});
    EXPECT_DOUBLE_EQ(difference.difference(), 3);
    EXPECT_DOUBLE_EQ(difference.standard_error, std::sqrt(2.0 / 3));
    EXPECT_DOUBLE_EQ(difference.limit, 2.776 * std::sqrt(2.0 / 3));
    EXPECT_TRUE(difference.exceeds_noise());
    EXPECT_FALSE(mean_difference(Values{1, 2, 3}, Values{3, 4, 5}).exceeds_noise()) << "2 is below 2.27";
}

TEST(MeanDifference, HasNoNoiseFromOneValue) {
    const MeanDifference difference = mean_difference(Values{1}, Values{4, 5, 6});
    EXPECT_FALSE(difference.noise_is_known);
    EXPECT_FALSE(difference.exceeds_noise());
    EXPECT_DOUBLE_EQ(difference.difference(), 4);
}

TEST(MeanDifference, OfConstantValuesExceedsNoNoiseAtAll) {
    EXPECT_TRUE(mean_difference(Values{1, 1}, Values{1.001, 1.001}).exceeds_noise());
    EXPECT_FALSE(mean_difference(Values{0.1, 0.1, 0.1}, Values{0.1, 0.1}).exceeds_noise());
}

TEST(MeanDifference, IsSymmetricUpToSign) {
    const Values one{3, 1, 4, 1, 5};
    const Values other{9, 2, 6, 5};
    const MeanDifference forth = mean_difference(one, other);
    const MeanDifference back = mean_difference(other, one);
    EXPECT_DOUBLE_EQ(forth.difference(), -back.difference());
    EXPECT_DOUBLE_EQ(forth.limit, back.limit);
    EXPECT_EQ(forth.exceeds_noise(), back.exceeds_noise());
}

// Of 20,000 pairs of samples of one distribution, 5 % exceed the limit; the standard deviation of that count is 31. Of
// short samples it is fewer, since degrees of freedom are rounded down.
TEST(MeanDifference, FindsAChangeInOneOfTwentyPairsWithoutOne) {
    std::mt19937 random(7);
    std::normal_distribution<double> noise(100, 3);
    for (const std::size_t size : {3U, 10U, 40U, 100U}) {
        int found = 0;
        constexpr int kPairs = 20'000;
        for (int pair = 0; pair < kPairs; ++pair) {
            Values before(size);
            Values after(size);
            for (std::size_t k = 0; k < size; ++k) {
                before[k] = noise(random);
                after[k] = noise(random);
            }
            found += mean_difference(before, after).exceeds_noise() ? 1 : 0;
        }
        EXPECT_LT(found, kPairs * 0.06) << size;
        EXPECT_GT(found, kPairs * (size < 10 ? 0.02 : 0.04)) << size;
    }
}

TEST(MeanDifference, ReadsStudentsTableAtWholeDegrees) {
    EXPECT_DOUBLE_EQ(student_t(1), 12.706);
    EXPECT_DOUBLE_EQ(student_t(0.3), 12.706);
    EXPECT_DOUBLE_EQ(student_t(4.9), 2.776);
    EXPECT_DOUBLE_EQ(student_t(30.5), 2.042);
    EXPECT_DOUBLE_EQ(student_t(1e9), 1.980);
}
}  // namespace
}  // namespace pipescope
