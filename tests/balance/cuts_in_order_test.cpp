#include "balance/cuts_in_order.h"

#include "balance/partition_table.h"
#include "tests/balance/every_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace pipescope {
namespace {
constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

PartitionProblem random_problem_in_order(std::mt19937& random) {
    const std::size_t layers = 2 + random() % 7;
    PartitionProblem problem;
    problem.partitions = 1 + static_cast<int>(random() % layers);
    problem.micro_batches = 1 + static_cast<int>(random() % 6);
    problem.checkpoint = static_cast<Checkpoint>(random() % 3);
    problem.loss_ns = 3;
    for (std::size_t l = 0; l < layers; ++l) {
        problem.forward_ns.push_back(static_cast<double>(random() % 10));
        problem.recompute_ns.push_back(static_cast<double>(random() % 10));
        problem.backward_ns.push_back(static_cast<double>(random() % 20));
        if (l > 0) {
            problem.copy_forward_ns.push_back(static_cast<std::int64_t>(random() % 8));
            problem.copy_backward_ns.push_back(static_cast<std::int64_t>(random() % 8));
        }
    }
    for (std::size_t l = 0; random() % 2 == 0 && l < layers; ++l) {
        problem.kept_forward_ns.resize(layers);
        problem.kept_forward_ns[l] = static_cast<double>(random() % 12);
    }
    for (int j = 0; random() % 2 == 0 && j < problem.partitions; ++j) {
        problem.speeds.push_back(1 + static_cast<double>(j % 2));
    }
    if (problem.speeds.size() != static_cast<std::size_t>(problem.partitions)) {
        problem.speeds.clear();
    }
    return problem;
}

std::vector<RankedBalance> all_of(CutsInOrder& cuts) {
    std::vector<RankedBalance> found;
    while (const auto cut = cuts.next()) {
        EXPECT_LE(cut->step_ns, cuts.lower_bound());
        found.push_back(*cut);
    }
    return found;
}

TEST(CutsInOrder, GivesEveryCutOnceWithItsStepAscending) {
    std::mt19937 random(11);
    for (int round = 0; round < 500; ++round) {
        const PartitionProblem problem = random_problem_in_order(random);
        std::vector<std::int64_t> steps;
        for_every_balance(problem.forward_ns.size(), problem.partitions,
                          [&](const Balance& balance) { steps.push_back(gpipe_step(problem, balance)); });
        std::sort(steps.begin(), steps.end());
        const PartitionTable table(problem);
        CutsInOrder cuts(order_by_step(problem, table), kNoBound, 100'000);
        const std::vector<RankedBalance> found = all_of(cuts);
        ASSERT_EQ(found.size(), steps.size()) << "round " << round;
        for (std::size_t k = 0; k < found.size(); ++k) {
            ASSERT_EQ(found[k].step_ns, steps[k]) << "round " << round;
            ASSERT_EQ(gpipe_step(problem, found[k].balance), steps[k]) << "round " << round;
        }
        EXPECT_TRUE(cuts.is_exhausted());
        const std::int64_t middle = steps[steps.size() / 2];
        CutsInOrder fewer(order_by_step(problem, table), middle, 100'000);
        EXPECT_EQ(all_of(fewer).size(),
                  static_cast<std::size_t>(
                      std::count_if(steps.begin(), steps.end(), [&](std::int64_t step) { return step < middle; })));
        EXPECT_EQ(fewer.lower_bound(), middle);
    }
}

PartitionProblem uniform_problem(std::size_t layers, int n) {
    PartitionProblem problem;
    problem.partitions = n;
    problem.micro_batches = 4;
    problem.forward_ns = problem.recompute_ns = problem.backward_ns = std::vector<double>(layers, 1.0);
    return problem;
}

TEST(CutsInOrder, SaysWhatItProvedWhenItGivesUp) {
    const PartitionProblem problem = uniform_problem(12, 4);
    const PartitionTable table(problem);
    CutsInOrder cuts(order_by_step(problem, table), kNoBound, 3);
    EXPECT_FALSE(cuts.next());
    EXPECT_FALSE(cuts.is_exhausted());
    EXPECT_LE(cuts.lower_bound(), optimal_partitions(problem).at(0).step_ns);
    EXPECT_GT(cuts.lower_bound(), 0);
}

TEST(CutsInOrder, OrdersByTheFullestPartition) {
    PartitionProblem problem = uniform_problem(6, 2);
    problem.peak_bytes = [](PartitionId partition, LayerRange layers) {
        return static_cast<Bytes>(layers.size()) * (partition.value() == 0 ? 10 : 1);
    };
    CutsInOrder cuts(order_by_peak(problem), kNoBound, 1000);
    const std::vector<RankedBalance> found = all_of(cuts);
    ASSERT_EQ(found.size(), 5U);
    EXPECT_EQ(to_string(found[0].balance), "1,5");
    EXPECT_EQ(found[0].step_ns, 10);
    EXPECT_EQ(to_string(found[4].balance), "5,1");
}
}  // namespace
}  // namespace pipescope
