#include "balance/contiguous_partition.h"
#include "tests/balance/every_balance.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

double largest_part(const std::vector<double>& costs, const Balance& balance) {
    double largest = 0;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{j});
        double sum = 0;
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            sum += costs[l];
        }
        largest = std::max(largest, sum);
    }
    return largest;
}

TEST(MinmaxPartition, EqualsBruteForceOnRandomChains) {
    std::mt19937 random(1);
    for (int round = 0; round < 500; ++round) {
        const std::size_t layers = 1 + random() % 10;
        const int n = 1 + static_cast<int>(random() % layers);
        std::vector<double> costs(layers);
        const int kind = static_cast<int>(random() % 4);
        for (double& cost : costs) {
            cost = kind == 0   ? static_cast<double>(random() % 4)             // many zeros and ties
                   : kind == 1 ? static_cast<double>(random()) / 1e9           // no two alike
                   : kind == 2 ? std::exp(static_cast<double>(random() % 30))  // one layer outweighs the rest
                               : 1.0;
        }
        double best = std::numeric_limits<double>::infinity();
        for_every_balance(layers, n,
                          [&](const Balance& balance) { best = std::min(best, largest_part(costs, balance)); });
        const Balance found = minmax_partition(costs, n);
        EXPECT_EQ(found.num_partitions(), static_cast<std::size_t>(n));
        EXPECT_EQ(largest_part(costs, found), best) << "round " << round;
    }
}

TEST(MinmaxPartition, SpreadsEqualLayersEvenly) {
    const auto of = [](std::size_t layers, int n) {
        return to_string(minmax_partition(std::vector<double>(layers, 3.5), n));
    };
    const auto sorted = [&](std::size_t layers, int n) {
        auto parts = minmax_partition(std::vector<double>(layers, 3.5), n).layers_per_partition();
        std::sort(parts.begin(), parts.end());
        return to_string(Balance(parts));
    };
    EXPECT_EQ(of(8, 4), "2,2,2,2");
    EXPECT_EQ(sorted(7, 4), "1,2,2,2");
    EXPECT_EQ(sorted(10, 4), "2,2,3,3");
    EXPECT_EQ(sorted(26, 8), "3,3,3,3,3,3,4,4");
    EXPECT_EQ(sorted(11, 8), "1,1,1,1,1,2,2,2");
}

TEST(MinmaxPartition, KeepsAHeavyHeadAlone) {
    EXPECT_EQ(to_string(minmax_partition(std::vector<double>{1, 1, 1, 1, 9}, 2)), "4,1");
    EXPECT_EQ(to_string(minmax_partition(std::vector<double>{10, 1, 1, 1, 1, 10}, 3)), "1,4,1");
}

TEST(MinmaxPartition, HandlesLayersThatCostNothing) {
    EXPECT_EQ(minmax_partition(std::vector<double>(9, 0.0), 4).num_partitions(), 4u);
    EXPECT_EQ(to_string(minmax_partition(std::vector<double>{0, 0, 5, 0}, 4)), "1,1,1,1");
}

TEST(MinmaxPartition, RefusesWhatCannotBeCut) {
    const std::vector<double> costs{1, 2};
    EXPECT_THAT(thrown<BalanceError>([&] { minmax_partition(costs, 3); }), HasSubstr("partitions is 3"));
    EXPECT_THROW(minmax_partition(costs, 0), BalanceError);
    EXPECT_THAT(thrown<BalanceError>([&] {
                    minmax_partition(std::vector<double>{1, -1}, 1);
                }),
                HasSubstr("the cost of layer 1 is -1"));
    EXPECT_THROW(minmax_partition(std::vector<double>{std::numeric_limits<double>::quiet_NaN()}, 1), BalanceError);
    EXPECT_THROW(minmax_partition(std::vector<double>{1e308, 1e308}, 1), BalanceError);
}
}  // namespace
}  // namespace pipescope
