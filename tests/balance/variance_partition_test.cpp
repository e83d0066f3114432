#include "balance/contiguous_partition.h"
#include "tests/balance/every_balance.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace pipescope {
namespace {
double sum_of_squares(const std::vector<double>& costs, const Balance& balance) {
    double squares = 0;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{j});
        double sum = 0;
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            sum += costs[l];
        }
        squares += sum * sum;
    }
    return squares;
}

TEST(VariancePartition, EqualsBruteForceOnRandomChains) {
    std::mt19937 random(7);
    for (int round = 0; round < 1000; ++round) {
        const std::size_t layers = 1 + random() % 10;
        const int n = 1 + static_cast<int>(random() % layers);
        std::vector<double> costs(layers);
        for (double& cost : costs) {
            cost = static_cast<double>(random() % (round % 2 == 0 ? 4 : 1000));
        }
        double best = std::numeric_limits<double>::infinity();
        for_every_balance(layers, n,
                          [&](const Balance& balance) { best = std::min(best, sum_of_squares(costs, balance)); });
        const Balance found = variance_partition(costs, n);
        EXPECT_EQ(found.num_partitions(), static_cast<std::size_t>(n));
        EXPECT_NEAR(sum_of_squares(costs, found), best, 1e-9 * best) << "round " << round;
    }
}

TEST(VariancePartition, IsNotTheSmallestLargestPart) {
    // 9 is the largest part of any cut. The rest varies less as 4 + 4 than as 1 + 7.
    const std::vector<double> costs{9, 1, 3, 4};
    EXPECT_EQ(to_string(variance_partition(costs, 3)), "1,2,1");
}

TEST(VariancePartition, TakesCostsOfAnySize) {
    EXPECT_EQ(to_string(variance_partition(std::vector<double>(6, 1e300), 3)), "2,2,2");
    EXPECT_EQ(variance_partition(std::vector<double>(6, 0.0), 3).num_partitions(), 3U);
    EXPECT_THROW(variance_partition(std::vector<double>{1, -1}, 1), BalanceError);
}
}  // namespace
}  // namespace pipescope
