#include "cluster/failures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace pipescope {
namespace {
/// Share of progress in a run of that many intervals, failure by failure.
double sampled_share(const Failures& failures, double interval, int intervals, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> next(1 / (failures.hours_between * 3600));
    double time = 0;
    double failure = next(random);
    const auto pass = [&](double seconds) {  // false: a failure came first
        if (time + seconds <= failure) {
            time += seconds;
            return true;
        }
        time = failure;
        failure = time + next(random);
        return false;
    };
    for (int k = 0; k < intervals; ++k) {
        while (!pass(interval + failures.checkpoint_seconds)) {
            while (!pass(failures.restart_seconds)) {
            }
        }
    }
    return interval * intervals / time;
}

TEST(Failures, TheClosedFormIsTheMeanOfSampledRuns) {
    for (const Failures& failures : {Failures{3.1, 60, 900}, Failures{24, 300, 600}, Failures{0.5, 30, 120}}) {
        const CheckpointPlan plan = best_checkpoints(failures);
        for (const double factor : {0.5, 1.0, 3.0}) {
            const double interval = plan.interval_seconds * factor;
            const double sampled = sampled_share(failures, interval, 400'000, 7);
            EXPECT_NEAR(effective_share(failures, interval) / sampled, 1, 0.005) << failures.hours_between << factor;
        }
    }
}

TEST(Failures, NoOtherIntervalIsBetter) {
    for (const Failures& failures : {Failures{3.1, 60, 900}, Failures{1000, 5, 10}, Failures{0.02, 60, 60}}) {
        const CheckpointPlan plan = best_checkpoints(failures);
        for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
            EXPECT_LE(effective_share(failures, plan.interval_seconds * factor), plan.effective) << factor;
        }
    }
    // Young's square root, for rare failures: t = sqrt(2 c M).
    const CheckpointPlan rare = best_checkpoints({10'000, 10, 0});
    EXPECT_NEAR(rare.interval_seconds / std::sqrt(2 * 10 * 10'000 * 3600.0), 1, 0.001);
}

// Llama 3 405B (arXiv 2407.21783): 419 unexpected stops in 54 days, more than 90 % effective.
TEST(Failures, LlamasRunIsMoreThanNineTenthsEffective) {
    EXPECT_GT(best_checkpoints({54.0 * 24 / 419, 10, 600}).effective, 0.9);
}

TEST(Failures, WithoutThemARunIsItsTraining) {
    EXPECT_EQ(best_checkpoints({}).effective, 1);
    EXPECT_EQ(best_checkpoints({}).interval_seconds, 0);
}

TEST(Failures, SparesCoverNodesInRepair) {
    EXPECT_EQ(spare_nodes(100, 0, 24), 0);
    // One in repair in the mean: P(more than 4) = 0.0037, P(more than 3) = 0.019.
    EXPECT_EQ(spare_nodes(100, 2400, 24), 4);
    EXPECT_EQ(spare_nodes(1, 1e9, 24), 0);
    EXPECT_EQ(spare_nodes(4, 5, 24), 30);  // Poisson of mean 19.2: more are in repair than run
    EXPECT_GT(spare_nodes(100'000, 1000, 24), 2400);
}
/// Mean wait of sampled runs: failure n waits until failure n - spares is repaired.
double sampled_wait(double hours, double between, double repair, int spares, int runs) {
    std::mt19937_64 random(3);
    std::exponential_distribution<double> next(1 / between);
    double sum = 0;
    for (int run = 0; run < runs; ++run) {
        std::vector<double> failed;  // on the clock
        double waited = 0;
        for (double awake = next(random); awake < hours; awake += next(random)) {
            failed.push_back(awake + waited);
            if (failed.size() > static_cast<std::size_t>(spares)) {
                const double back = failed[failed.size() - 1 - static_cast<std::size_t>(spares)] + repair;
                waited += std::max(0.0, back - failed.back());
            }
        }
        sum += waited;
    }
    return sum / runs;
}

TEST(Failures, RunsWaitForRepairsAsSampledRunsDo) {
    constexpr double kRepair = 24;
    struct Case {
        double in_repair;  ///< mean
        int spares;
        double repairs;  ///< length of the run
        double error;    ///< of the whole time
    };
    for (const Case& each : {Case{4.9, 0, 0.36, 0.005}, Case{0.2, 1, 0.5, 0.005}, Case{1, 1, 1, 0.006},
                             Case{1, 2, 3, 0.005}, Case{2, 1, 1, 0.01}, Case{5, 2, 30, 0.005}, Case{10, 4, 60, 0.005},
                             Case{10, 0, 2, 0.005}, Case{10, 6, 1, 0.07}, Case{5, 1, 0.2, 0.07}}) {
        const double between = kRepair / each.in_repair;
        const double hours = each.repairs * kRepair;
        const int runs = static_cast<int>(100'000 / std::max(1.0, each.in_repair * each.repairs));
        const double sampled = hours + sampled_wait(hours, between, kRepair, each.spares, runs);
        EXPECT_NEAR((hours + repair_waits_by_spares(hours, between, kRepair, each.spares).back()) / sampled, 1,
                    each.error)
            << each.in_repair << " in repair, " << each.spares << " spares, " << each.repairs << " repair times";
    }
    // Of a cluster of a hundred thousand nodes, one in ten in repair: each further spare saves time.
    const std::vector<double> waits = repair_waits_by_spares(1000, 0.0024, 24, 20'000);
    ASSERT_GT(waits.size(), 10'000U);
    for (std::size_t k = 1; k < waits.size(); ++k) {
        ASSERT_LE(waits[k], waits[k - 1]) << k;
    }
    EXPECT_LT(waits.back(), 1e-9);
    EXPECT_EQ(repair_waits_by_spares(1000, 0.0024, 24, 5000).back(), waits[5000]);
    EXPECT_EQ(repair_waits_by_spares(100, 0, 24, 0), std::vector<double>{0});
    EXPECT_EQ(repair_waits_by_spares(100, 10, 0, 0), std::vector<double>{0});
}
}  // namespace
}  // namespace pipescope
