#include "simulator/balance_search.h"
#include "schedule/error.h"
#include "simulator/simulation.h"
#include "tests/balance/every_balance.h"
#include "tests/simulator/random_pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct BruteForce {
    std::int64_t step_ns = std::numeric_limits<std::int64_t>::max();  ///< of the best that keeps the limit
    Bytes least_bytes = std::numeric_limits<Bytes>::max();            ///< smallest largest peak
};

BruteForce brute_force(const Profile& profile, PipelineOptions options, int n) {
    BruteForce best;
    for_every_balance(profile.layers.size(), n, [&](const Balance& balance) {
        options.balance = balance;
        const Simulation simulation = simulate(profile, options, {.noise = false, .memory = true});
        Bytes most = 0;
        for (const SimulatedLane& lane : simulation.lanes) {
            most = std::max(most, lane.peak_bytes);
        }
        best.least_bytes = std::min(best.least_bytes, most);
        if (simulation.feasible) {
            best.step_ns = std::min(best.step_ns, simulation.step_time.count());
        }
    });
    return best;
}

class RandomSearch {
public:
    explicit RandomSearch(unsigned seed) : random_(seed) {}

    void draw(bool with_skip) {
        const std::size_t layers = 1 + random_() % 8;
        n = 1 + static_cast<int>(random_() % std::min<std::size_t>(layers, 4));
        profile = random_profile(random_, layers, with_skip);
        for (LayerProfile& layer : profile.layers) {
            layer.forward_ns[0] += 1;
            layer.backward_ns[0] += 1;
        }
        options = random_options(random_, random_balance(random_, layers, n));
    }
    unsigned next() { return static_cast<unsigned>(random_()); }

    Profile profile;
    PipelineOptions options;
    int n = 1;

private:
    std::mt19937 random_;
};

TEST(FindBalance, IsTheBestOfAllCutsBySimulation) {
    RandomSearch search(31);
    for (int round = 0; round < 600; ++round) {
        search.draw(false);
        const FoundBalance found = find_balance(search.profile, search.options, search.n, BalanceAlgorithm::optimal);
        ASSERT_EQ(found.step_ns, brute_force(search.profile, search.options, search.n).step_ns) << "round " << round;
        EXPECT_TRUE(found.optimal);
        EXPECT_EQ(found.lower_bound_ns, found.step_ns);
        EXPECT_EQ(found.peak_bytes.size(), static_cast<std::size_t>(search.n));
    }
}

TEST(FindBalance, NeverClaimsMoreThanItProvesUnderAMemoryLimit) {
    RandomSearch search(32);
    int proven = 0;
    int feasible = 0;
    int missed = 0;
    for (int round = 0; round < 600; ++round) {
        search.draw(false);
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        search.options.memory_limit = std::max<Bytes>(1, least - 20 + static_cast<Bytes>(search.next() % 200));
        const BruteForce best = brute_force(search.profile, search.options, search.n);
        const FoundBalance found = find_balance(search.profile, search.options, search.n, BalanceAlgorithm::optimal);
        const bool possible = best.step_ns != std::numeric_limits<std::int64_t>::max();
        if (found.feasible) {
            ++feasible;
            ASSERT_TRUE(possible);
            EXPECT_GE(found.step_ns, best.step_ns);
            EXPECT_LE(found.lower_bound_ns, best.step_ns) << "round " << round;
            EXPECT_FALSE(found.optimal && found.step_ns != best.step_ns);
            proven += found.optimal ? 1 : 0;
        } else {
            missed += possible ? 1 : 0;
            EXPECT_FALSE(found.optimal);
            EXPECT_THAT(found.infeasible_because.value_or(""),
                        AllOf(HasSubstr("memory_limit is"), HasSubstr("would do")));
        }
    }
    EXPECT_GT(feasible, 300);
    EXPECT_GT(proven, feasible * 8 / 10);
    EXPECT_LT(missed, 12) << "possible, but not found: tensors that wait are hard to foresee";
}

TEST(FindBalance, BoundsWhatItCannotProve) {
    RandomSearch search(33);
    for (int round = 0; round < 300; ++round) {
        search.draw(true);
        search.options.batch += static_cast<std::int64_t>(search.next() % 3);
        search.options.schedule = search.next() % 4 == 0 ? "1f1b" : "gpipe";
        for (const BalanceAlgorithm algorithm :
             {BalanceAlgorithm::optimal, BalanceAlgorithm::minmax, BalanceAlgorithm::block}) {
            const FoundBalance found = find_balance(search.profile, search.options, search.n, algorithm);
            const std::int64_t best = brute_force(search.profile, search.options, search.n).step_ns;
            EXPECT_GE(found.step_ns, best);
            EXPECT_LE(found.lower_bound_ns, best) << "round " << round;
            EXPECT_TRUE(!found.optimal || found.step_ns == best);
        }
    }
}

TEST(FindBalance, NamesTheSmallestLimitThatWouldDo) {
    Profile profile = uniform_profile(4);
    for (LayerProfile& layer : profile.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 100;
    }
    PipelineOptions options;
    options.chunks = options.batch = 4;
    options.memory_limit = 399;
    const FoundBalance found = find_balance(profile, options, 2, BalanceAlgorithm::optimal);
    EXPECT_FALSE(found.feasible);
    EXPECT_THAT(*found.infeasible_because,
                AllOf(HasSubstr("memory_limit is 399"), HasSubstr("400 bytes a lane would do")));
    options.memory_limit = 400;
    EXPECT_TRUE(find_balance(profile, options, 2, BalanceAlgorithm::optimal).feasible);
}

TEST(FindBalance, ShowsWhatTorchgpipesBalanceCosts) {
    const Profile profile = uniform_profile(7);
    PipelineOptions options;
    options.chunks = options.batch = 8;
    const FoundBalance block = find_balance(profile, options, 4, BalanceAlgorithm::block);
    const FoundBalance best = find_balance(profile, options, 4, BalanceAlgorithm::optimal);
    EXPECT_EQ(to_string(block.balance), "1,1,1,4");
    EXPECT_FALSE(block.optimal);
    EXPECT_EQ(block.lower_bound_ns, best.step_ns);
    EXPECT_GT(static_cast<double>(block.step_ns), 1.5 * static_cast<double>(best.step_ns));
    EXPECT_TRUE(find_balance(profile, options, 4, BalanceAlgorithm::minmax).optimal);
}

TEST(FindBalance, RefusesWhatCannotBe) {
    const Profile profile = uniform_profile(3);
    PipelineOptions options;
    EXPECT_THAT([&] { find_balance(profile, options, 4, BalanceAlgorithm::optimal); },
                ThrowsMessage<BalanceError>(HasSubstr("partitions is 4; 3 layers make 1 to 3")));
    EXPECT_THROW(find_balance(profile, options, 0, BalanceAlgorithm::block), BalanceError);
    options.placement = {LaneId{0}, LaneId{0}};
    EXPECT_THAT([&] { find_balance(profile, options, 2, BalanceAlgorithm::optimal); },
                ThrowsMessage<UsageError>(HasSubstr("leave the placement out")));
    EXPECT_THAT([] { parse_balance_algorithm("best"); },
                ThrowsMessage<UsageError>(HasSubstr("optimal, minmax, block")));
}
}  // namespace
}  // namespace pipescope
