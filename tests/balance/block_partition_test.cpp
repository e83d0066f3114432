#include "balance/contiguous_partition.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
std::string blocks(const std::vector<double>& costs, int n) {
    return to_string(block_partition(costs, n).balance);
}

TEST(BlockPartition, GivesTorchgpipesVectors) {
    EXPECT_EQ(blocks({1, 2, 3, 4, 5, 6}, 2), "4,2");
    EXPECT_EQ(blocks({1, 2, 3, 4, 5, 6}, 3), "3,2,1");
    EXPECT_EQ(blocks({6, 5, 4, 3, 2, 1}, 2), "2,4");
    EXPECT_EQ(blocks({10, 1, 1, 1, 1, 10}, 3), "2,2,2");
    EXPECT_EQ(blocks({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9}, 4), "6,4,3,2");
}

TEST(BlockPartition, PutsTheWholeRemainderOfEqualLayersLast) {
    const auto equal = [](std::size_t layers, int n) { return blocks(std::vector<double>(layers, 2.0), n); };
    EXPECT_EQ(equal(7, 4), "1,1,1,4");
    EXPECT_EQ(equal(10, 4), "2,2,2,4");
    EXPECT_EQ(equal(15, 8), "1,1,1,1,1,1,1,8");
    EXPECT_EQ(equal(26, 8), "3,3,3,3,3,3,3,5");
    EXPECT_EQ(equal(11, 8), "1,1,1,1,1,1,1,4");
}

TEST(BlockPartition, NeverLeavesAPartitionEmptyAndFlagsItsRepair) {
    std::mt19937 random(2);
    int repaired = 0;
    for (int round = 0; round < 2000; ++round) {
        const std::size_t layers = 1 + random() % 12;
        const int n = 1 + static_cast<int>(random() % layers);
        std::vector<double> costs(layers);
        for (double& cost : costs) {
            cost = static_cast<double>(random() % 3) * static_cast<double>(random() % 50);
        }
        const BlockPartition result = block_partition(costs, n);
        EXPECT_EQ(result.balance.num_layers(), layers);
        EXPECT_EQ(result.balance.num_partitions(), static_cast<std::size_t>(n));
        repaired += result.repaired ? 1 : 0;
    }
    EXPECT_LT(repaired, 2000);
    EXPECT_FALSE(block_partition(std::vector<double>{1, 2, 3}, 2).repaired);
}

TEST(BlockPartition, RefusesMorePartitionsThanLayers) {
    EXPECT_THROW(block_partition(std::vector<double>{1, 2}, 3), BalanceError);
    EXPECT_THROW(block_partition(std::vector<double>{1, 2}, 0), BalanceError);
}
}  // namespace
}  // namespace pipescope
