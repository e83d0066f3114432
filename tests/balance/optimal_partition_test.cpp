#include "balance/optimal_partition.h"
#include "balance/contiguous_partition.h"
#include "tests/balance/every_balance.h"
#include "tests/balance/random_problem.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

TEST(GPipeStep, IsTheClosedFormOfUniformPartitions) {
    // T = (m + n - 1) f + s r + m b + (n - 1) b
    PartitionProblem problem = problem_of(std::vector<double>(8, 1.0), std::vector<double>(8, 2.0), 8, 32);
    const Balance balance({1, 1, 1, 1, 1, 1, 1, 1});
    problem.checkpoint = Checkpoint::always;
    EXPECT_EQ(gpipe_step(problem, balance), 149);
    problem.checkpoint = Checkpoint::except_last;
    EXPECT_EQ(gpipe_step(problem, balance), 148);
    problem.checkpoint = Checkpoint::never;
    EXPECT_EQ(gpipe_step(problem, balance), 117);
}

TEST(OptimalPartition, EqualsBruteForceOnRandomChains) {
    std::mt19937 random(4);
    int infeasible = 0;
    for (int round = 0; round < 3000; ++round) {
        const PartitionProblem problem = random_problem(random);
        std::int64_t best = std::numeric_limits<std::int64_t>::max();
        for_every_balance(problem.forward_ns.size(), problem.partitions, [&](const Balance& balance) {
            if (fits(problem, balance)) {
                best = std::min(best, gpipe_step(problem, balance));
            }
        });
        const auto found = optimal_partitions(problem, 3);
        ASSERT_EQ(found.empty(), best == std::numeric_limits<std::int64_t>::max()) << "round " << round;
        infeasible += found.empty() ? 1 : 0;
        if (found.empty()) {
            continue;
        }
        EXPECT_EQ(found[0].step_ns, best) << "round " << round;
        for (const RankedBalance& each : found) {
            EXPECT_EQ(gpipe_step(problem, each.balance), each.step_ns);
            EXPECT_GE(each.step_ns, best);
            EXPECT_TRUE(fits(problem, each.balance));
        }
    }
    EXPECT_GT(infeasible, 100);
    EXPECT_LT(infeasible, 2000);
}

TEST(OptimalPartition, BeatsTheSmallestLargestPartWhereForwardAndBackwardDiffer) {
    // 2,1 has parts of 5 + 1 and 1 + 5, perfectly even, but bottlenecks of 5 forward and 5 backward. 1,2 has a part of
    // 3 + 5, and bottlenecks of 3 and 5.
    PartitionProblem problem = problem_of({3, 2, 1}, {1, 0, 5}, 2, 10);
    problem.checkpoint = Checkpoint::never;
    const std::vector<double> both{4, 2, 6};
    EXPECT_EQ(to_string(minmax_partition(both, 2)), "2,1");
    EXPECT_EQ(gpipe_step(problem, Balance({2, 1})), 12 + 9 * (5 + 5));
    const std::vector<RankedBalance> found = optimal_partitions(problem);
    EXPECT_EQ(to_string(found.at(0).balance), "1,2");
    EXPECT_EQ(found.at(0).step_ns, 12 + 9 * (3 + 5));
}

TEST(OptimalPartition, NamesTheSmallestLimitThatWouldDo) {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
        PartitionProblem problem = random_problem(random);
        problem.peak_bytes = [&problem](PartitionId partition, LayerRange range) {
            double sum = partition.value();
            for (std::size_t l = range.first.index(); l < range.end.index(); ++l) {
                sum += problem.backward_ns[l];
            }
            return static_cast<Bytes>(sum);
        };
        const auto lanes = static_cast<std::size_t>(problem.partitions);
        problem.memory_limits.clear();
        Balance balance({1});
        const Bytes limit = smallest_memory_limit(problem, &balance);
        problem.memory_limits.assign(lanes, limit);
        EXPECT_TRUE(fits(problem, balance));
        EXPECT_FALSE(optimal_partitions(problem).empty());
        problem.memory_limits.assign(lanes, limit - 1);
        EXPECT_TRUE(optimal_partitions(problem).empty());

        // Lanes with less memory than the largest: all limits rise or fall together until a cut fits.
        std::vector<Bytes> gaps(lanes);
        for (std::size_t lane = 1; lane < lanes; ++lane) {
            gaps[lane] = static_cast<Bytes>(random() % 30);
        }
        const auto limits_below = [&](Bytes largest) {
            std::vector<Bytes> limits;
            for (const Bytes gap : gaps) {
                limits.push_back(largest - gap);
            }
            return limits;
        };
        problem.memory_limits = limits_below(1000);
        const Bytes largest = smallest_memory_limit(problem, &balance);
        problem.memory_limits = limits_below(largest);
        EXPECT_TRUE(fits(problem, balance));
        EXPECT_FALSE(optimal_partitions(problem).empty());
        problem.memory_limits = limits_below(largest - 1);
        EXPECT_TRUE(optimal_partitions(problem).empty());
    }
}

TEST(OptimalPartition, RefusesWhatCannotBeCut) {
    const PartitionProblem problem = problem_of({1, 2}, {1, 2}, 3, 4);
    EXPECT_THAT(thrown<BalanceError>([&] { optimal_partitions(problem); }), HasSubstr("partitions is 3"));
    PartitionProblem uneven = problem_of({1, 2}, {1}, 1, 4);
    EXPECT_THAT(thrown<BalanceError>([&] { optimal_partitions(uneven); }), HasSubstr("backward_ns has 1 entry;"));
    const PartitionProblem huge = problem_of(std::vector<double>(5000, 1.0), std::vector<double>(5000, 1.0), 3, 4);
    EXPECT_THAT(thrown<BalanceError>([&] { optimal_partitions(huge); }), HasSubstr("minmax"));
}
}  // namespace
}  // namespace pipescope
