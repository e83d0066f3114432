#include "simulator/search/balance_search.h"
#include "base/error.h"
#include "base/quantities.h"
#include "simulator/simulation.h"
#include "tests/balance/every_balance.h"
#include "tests/simulator/random_pipelines.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

struct BruteForce {
    std::int64_t step_ns = std::numeric_limits<std::int64_t>::max();  ///< of the best that keeps the limit
    Bytes least_bytes = std::numeric_limits<Bytes>::max();            ///< smallest largest peak
    Bytes least_raise = std::numeric_limits<Bytes>::max();            ///< of all lanes' limits, until some cut fits
};

BruteForce brute_force(const Profile& profile, PipelineOptions options, int n) {
    BruteForce best;
    for_every_balance(profile.layers.size(), n, [&](const Balance& balance) {
        options.balance = balance;
        const Simulation simulation = simulate(CheckedProfile(profile), options, {.noise = false, .memory = true});
        Bytes most = 0;
        Bytes raise = std::numeric_limits<Bytes>::min();
        for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
            const Bytes peak = simulation.lanes[lane].peak_bytes;
            most = std::max(most, peak);
            raise = std::max(
                raise, options.hardware.memory_limits.empty() ? peak : peak - options.hardware.memory_limits[lane]);
        }
        best.least_bytes = std::min(best.least_bytes, most);
        best.least_raise = std::min(best.least_raise, raise);
        if (simulation.feasible) {
            best.step_ns = std::min(best.step_ns, simulation.step_time.count());
        }
    });
    return best;
}

class RandomSearch {
public:
    explicit RandomSearch(unsigned seed) : random_(seed) {}

    /// Draws some layers, one layer each, a head that outweighs the rest, or layers without cost.
    void draw(bool with_skip) {
        const std::size_t layers = 1 + random_() % 8;
        n = random_() % 8 == 0 ? static_cast<int>(layers)
                               : 1 + static_cast<int>(random_() % std::min<std::size_t>(layers, 4));
        profile = random_profile(random_, layers, with_skip);
        const unsigned kind = static_cast<unsigned>(random_() % 4);
        for (LayerProfile& layer : profile.layers) {
            layer.forward_ns[0] += 1;
            layer.backward_ns[0] += 1;
            layer.graph_forward_ns = kind == 2 ? layer.recompute_ns : PerSize{};
            if (kind == 0 && random_() % 2 == 0 && layer.name != "l0") {
                layer.forward_ns = layer.recompute_ns = layer.backward_ns = {0, 0};
                layer.saved_bytes = layer.transient_bytes = {0, 0};
            }
            if (kind == 1 && layer.name == "l" + std::to_string(layers - 1)) {
                layer.forward_ns[0] *= 50;
                layer.backward_ns[0] *= 50;
                layer.parameter_bytes *= 50;
            }
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
        const FoundBalance found =
            find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal);
        ASSERT_EQ(found.step_ns, brute_force(search.profile, search.options, search.n).step_ns) << "round " << round;
        EXPECT_TRUE(found.optimal);
        EXPECT_EQ(found.lower_bound_ns, found.step_ns);
        EXPECT_EQ(found.peak_bytes.size(), static_cast<std::size_t>(search.n));
    }
}

TEST(FindBalance, IsTheBestOfAllCutsThatKeepAMemoryLimit) {
    RandomSearch search(32);
    int feasible = 0;
    int infeasible = 0;
    for (int round = 0; round < 1000; ++round) {
        search.draw(false);
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        search.options.hardware.memory_limit = std::max<Bytes>(1, least - 20 + static_cast<Bytes>(search.next() % 200));
        const BruteForce best = brute_force(search.profile, search.options, search.n);
        const FoundBalance found =
            find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal);
        ASSERT_EQ(found.feasible, best.step_ns != std::numeric_limits<std::int64_t>::max()) << "round " << round;
        if (found.feasible) {
            ++feasible;
            ASSERT_EQ(found.step_ns, best.step_ns) << "round " << round;
            EXPECT_TRUE(found.optimal);
        } else {
            ++infeasible;
            EXPECT_FALSE(found.optimal);
            EXPECT_EQ(found.smallest_limit, least) << "round " << round;
            EXPECT_TRUE(found.smallest_limit_is_exact);
            EXPECT_THAT(found.infeasible_because.value_or(""),
                        AllOf(HasSubstr("--memory-limit is"), HasSubstr("would be enough, and no less")));
        }
    }
    EXPECT_GT(feasible, 500);
    EXPECT_GT(infeasible, 50);
}

TEST(FindBalance, IsTheBestOfAllCutsThatKeepALimitOfEachLanesOwn) {
    RandomSearch search(36);
    int feasible = 0;
    int infeasible = 0;
    for (int round = 0; round < 800; ++round) {
        search.draw(false);
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        for (int lane = 0; lane < search.n; ++lane) {
            const Bytes limit = least - 300 + static_cast<Bytes>(search.next() % 600);
            search.options.hardware.memory_limits.push_back(std::max<Bytes>(1, limit));
        }
        const BruteForce best = brute_force(search.profile, search.options, search.n);
        const FoundBalance found =
            find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal);
        ASSERT_EQ(found.feasible, best.step_ns != std::numeric_limits<std::int64_t>::max()) << "round " << round;
        if (found.feasible) {
            ++feasible;
            ASSERT_EQ(found.step_ns, best.step_ns) << "round " << round;
            EXPECT_TRUE(found.optimal);
            continue;
        }
        ++infeasible;
        const std::vector<Bytes>& limits = search.options.hardware.memory_limits;
        const Bytes largest = *std::max_element(limits.begin(), limits.end());
        EXPECT_EQ(found.smallest_limit, largest + best.least_raise) << "round " << round;
        EXPECT_TRUE(found.smallest_limit_is_exact);
        EXPECT_FALSE(found.smallest_partitions) << "what a further lane could hold was not said";
        if (std::adjacent_find(limits.begin(), limits.end(), std::not_equal_to<>()) != limits.end()) {
            ASSERT_EQ(found.smallest_limits.size(), limits.size());
            for (std::size_t lane = 0; lane < limits.size(); ++lane) {
                EXPECT_EQ(found.smallest_limits[lane], limits[lane] + best.least_raise);
            }
            EXPECT_THAT(found.infeasible_because.value_or(""),
                        AllOf(HasSubstr("--memory-limit is " + format_bytes(limits[0]) + ", "),
                              HasSubstr(counted(best.least_raise, "byte", "bytes")),
                              HasSubstr(" more on each lane would be enough")));
            search.options.hardware.memory_limits = found.smallest_limits;
            EXPECT_TRUE(
                find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal)
                    .feasible);
        }
    }
    EXPECT_GT(feasible, 200);
    EXPECT_GT(infeasible, 200);
}

TEST(FindBalance, KeepsALimitOfEachLanesOwnWhereItHasNoBoundAsWell) {
    RandomSearch search(37);
    int feasible = 0;
    for (int round = 0; round < 100; ++round) {
        search.draw(true);
        search.options.schedule = Schedule::one_f_one_b;
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        for (int lane = 0; lane < search.n; ++lane) {
            search.options.hardware.memory_limits.push_back(
                std::max<Bytes>(1, least - 50 + static_cast<Bytes>(search.next() % 400)));
        }
        const FoundBalance found =
            find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal);
        bool keeps = true;
        for (std::size_t lane = 0; lane < found.peak_bytes.size(); ++lane) {
            keeps = keeps && found.peak_bytes[lane] <= search.options.hardware.memory_limits[lane];
        }
        ASSERT_EQ(found.feasible, keeps) << "round " << round;
        feasible += keeps ? 1 : 0;
        if (!keeps) {
            EXPECT_GT(found.smallest_limit.value_or(0), 0);
        }
    }
    EXPECT_GT(feasible, 50);
}

TEST(FindBalance, FindsTheCutThatKeepsTheLimitWhateverTheSchedule) {
    RandomSearch search(38);
    const std::vector<Schedule> schedules = {Schedule::one_f_one_b, Schedule::zero_bubble_h1, Schedule::pipedream,
                                             Schedule::gpipe};
    int feasible = 0;
    for (int round = 0; round < 600; ++round) {
        search.draw(round % 2 == 0);
        search.options.schedule = schedules[search.next() % schedules.size()];
        search.options.backward_order = search.next() % 2 == 0 ? BackwardOrder::last_first : BackwardOrder::first_first;
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        search.options.hardware.memory_limit = std::max<Bytes>(1, least - 2 + static_cast<Bytes>(search.next() % 4));
        const FoundBalance found =
            find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal);
        ASSERT_EQ(found.feasible, *search.options.hardware.memory_limit >= least)
            << "round " << round << ", " << to_string(search.options.schedule);
        if (!found.feasible) {
            EXPECT_EQ(found.smallest_limit, least);
            EXPECT_TRUE(found.smallest_limit_is_exact);
        }
        feasible += found.feasible ? 1 : 0;
    }
    EXPECT_GT(feasible, 200);
}

TEST(FindBalance, NamesTheFewestLanesThatKeepTheLimit) {
    RandomSearch search(34);
    int named = 0;
    for (int round = 0; round < 200; ++round) {
        search.draw(false);
        search.options.hardware.devices.clear();
        search.options.hardware.speeds.clear();
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        search.options.hardware.memory_limit = std::max<Bytes>(1, least - 1 - static_cast<Bytes>(search.next() % 500));
        const FoundBalance found =
            find_balance(CheckedProfile(search.profile), search.options, search.n, BalanceAlgorithm::optimal);
        ASSERT_FALSE(found.feasible);
        std::optional<int> fewest;
        for (int n = search.n + 1; !fewest && static_cast<std::size_t>(n) <= search.profile.layers.size(); ++n) {
            if (brute_force(search.profile, search.options, n).least_bytes <= *search.options.hardware.memory_limit) {
                fewest = n;
            }
        }
        EXPECT_EQ(found.smallest_partitions, fewest) << "round " << round;
        named += fewest ? 1 : 0;
    }
    EXPECT_GT(named, 30);
}

TEST(FindBalance, StaysHonestWhenItsEffortIsUsedUp) {
    RandomSearch search(35);
    for (int round = 0; round < 200; ++round) {
        search.draw(false);
        const Bytes least = brute_force(search.profile, search.options, search.n).least_bytes;
        search.options.hardware.memory_limit = least + static_cast<Bytes>(search.next() % 50);
        const std::int64_t best = brute_force(search.profile, search.options, search.n).step_ns;
        const FoundBalance found = find_balance(CheckedProfile(search.profile), search.options, search.n,
                                                BalanceAlgorithm::optimal, {2, 1, true, true});
        EXPECT_LE(found.lower_bound_ns, best) << "round " << round;
        EXPECT_TRUE(!found.feasible || found.step_ns >= best);
        EXPECT_TRUE(!found.optimal || found.step_ns == best);
        EXPECT_FALSE(!found.feasible && found.smallest_limit_is_exact);
    }
}

TEST(FindBalance, BoundsWhatItCannotProve) {
    RandomSearch search(33);
    for (int round = 0; round < 300; ++round) {
        search.draw(true);
        search.options.batch += static_cast<std::int64_t>(search.next() % 3);
        search.options.schedule = search.next() % 4 == 0 ? Schedule::one_f_one_b : Schedule::gpipe;
        for (const BalanceAlgorithm algorithm : {BalanceAlgorithm::optimal, BalanceAlgorithm::minmax,
                                                 BalanceAlgorithm::variance, BalanceAlgorithm::block}) {
            const FoundBalance found =
                find_balance(CheckedProfile(search.profile), search.options, search.n, algorithm);
            const std::int64_t best = brute_force(search.profile, search.options, search.n).step_ns;
            EXPECT_GE(found.step_ns, best);
            EXPECT_LE(found.lower_bound_ns, best) << "round " << round;
            EXPECT_TRUE(!found.optimal || found.step_ns == best);
        }
    }
}

TEST(FindBalance, BoundsAStepOfUnevenMicroBatchesCloselyWithoutEnumeratingCuts) {
    // 64 samples in 48 micro-batches: 16 of these have two samples. Counted as one sample each, the result would be a
    // quarter less.
    Profile profile = uniform_profile(40);
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        profile.layers[l].forward_ns[0] += 100 * static_cast<double>(l % 7);
    }
    PipelineOptions options;
    options.chunks = 48;
    options.batch = 64;
    for (const Checkpoint checkpoint : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        options.checkpoint = checkpoint;
        const FoundBalance found =
            find_balance(CheckedProfile(profile), options, 6, BalanceAlgorithm::optimal, {.prove_uneven = false});
        EXPECT_LE(found.lower_bound_ns, found.step_ns);
        EXPECT_GT(static_cast<double>(found.lower_bound_ns), 0.9 * static_cast<double>(found.step_ns));
    }
}

TEST(FindBalance, NamesTheSmallestLimitThatWouldDo) {
    Profile profile = uniform_profile(4);
    for (LayerProfile& layer : profile.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 100;
    }
    PipelineOptions options;
    options.chunks = options.batch = 4;
    options.hardware.memory_limit = 399;
    const FoundBalance found = find_balance(CheckedProfile(profile), options, 2, BalanceAlgorithm::optimal);
    EXPECT_FALSE(found.feasible);
    EXPECT_THAT(*found.infeasible_because,
                AllOf(HasSubstr("--memory-limit is 399 B;"), HasSubstr("400 bytes per lane would be enough")));
    options.hardware.memory_limit = 400;
    EXPECT_TRUE(find_balance(CheckedProfile(profile), options, 2, BalanceAlgorithm::optimal).feasible);
}

TEST(FindBalance, ShowsWhatTorchgpipesBalanceCosts) {
    const CheckedProfile profile = uniform_profile(7);
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
    const CheckedProfile profile = uniform_profile(3);
    PipelineOptions options;
    EXPECT_THAT(thrown<BalanceError>([&] { find_balance(profile, options, 4, BalanceAlgorithm::optimal); }),
                HasSubstr("partitions is 4"));
    EXPECT_THROW(find_balance(profile, options, 0, BalanceAlgorithm::block), BalanceError);
    options.placement = {LaneId{0}, LaneId{0}};
    EXPECT_THAT(thrown<UsageError>([&] { find_balance(profile, options, 2, BalanceAlgorithm::optimal); }),
                HasSubstr("leave the placement out"));
    EXPECT_THAT(thrown<UsageError>([] { parse_balance_algorithm("best"); }),
                HasSubstr("optimal, minmax, variance, block"));
}

/// Pipelines small enough to try every cut, with random sharing between lanes and random schedules.
class SmallPipeline {
public:
    explicit SmallPipeline(unsigned seed) : random_(seed) {}

    void draw() {
        n = 2 + static_cast<int>(random_() % 3);
        profile = random_profile(random_, 6 + random_() % 6, false);
        for (LayerProfile& layer : profile.layers) {
            for (PerSize* times : {&layer.forward_ns, &layer.backward_ns}) {
                (*times)[0] += 50;
                (*times)[1] += 150;
            }
        }
        options = {};
        options.chunks = options.batch = 1 + static_cast<std::int64_t>(random_() % 8);
        options.checkpoint = static_cast<Checkpoint>(random_() % 3);
    }
    void put_on(const std::string& device, int lanes_each) {
        for (int lane = 0; lane < n; ++lane) {
            options.hardware.devices.push_back(device + (lanes_each > 0 ? std::to_string(lane / lanes_each) : ""));
        }
    }
    std::int64_t best_step() const { return brute_force(profile, options, n).step_ns; }
    FoundBalance found() const { return find_balance(CheckedProfile(profile), options, n, BalanceAlgorithm::optimal); }

    Profile profile;
    PipelineOptions options;
    int n = 2;

private:
    std::mt19937 random_;
};

TEST(FindBalance, IsTheBestOfAllCutsWhereLanesShareDevicesOrLinks) {
    SmallPipeline small(41);
    for (int round = 0; round < 240; ++round) {
        small.draw();
        switch (round % 6) {
            case 0: small.put_on("cuda:", 2); break;
            case 1: small.put_on("cuda:", 3); break;
            case 2:
                small.put_on("cpu", 0);
                small.options.hardware.host_cores = 1;
                break;
            case 3: small.options.hardware.link = {1e8, 100, LinkSharing::all}; break;
            case 4: small.options.hardware.link = {1e8, 100, LinkSharing::sender}; break;
            default:
                small.put_on("cuda:", 1);
                small.profile.launch_ns = 200;
                break;
        }
        const FoundBalance found = small.found();
        ASSERT_EQ(found.step_ns, small.best_step()) << "round " << round;
        EXPECT_TRUE(found.optimal) << "round " << round;
    }
}

TEST(FindBalance, BoundsTheStepByTheLinksThatLanesHave) {
    SmallPipeline small(43);
    for (int round = 0; round < 200; ++round) {
        small.draw();
        Hardware& hardware = small.options.hardware;
        hardware.link = {1e7, 1000};
        if (round % 2 == 0) {
            hardware.pairs = {{0, 1, {1e9, 10}}};
        } else {
            hardware.nearer = {{2, {1e9, 10}}};
        }
        const FoundBalance found = small.found();
        const std::int64_t best = small.best_step();
        ASSERT_LE(found.lower_bound_ns, best) << "round " << round;
        ASSERT_TRUE(!found.optimal || found.step_ns == best) << "round " << round;
    }
}

TEST(FindBalance, ComesCloseToTheBestOfAllCutsWhereItHasNoBound) {
    SmallPipeline small(42);
    double excess = 0;
    int exact = 0;
    constexpr int kRounds = 200;
    for (int round = 0; round < kRounds; ++round) {
        small.draw();
        switch (round % 4) {
            case 0: small.options.schedule = Schedule::one_f_one_b; break;
            case 1:
                small.options.schedule = Schedule::one_f_one_b;
                small.options.hardware.link = {1e8, 100};
                break;
            case 2: small.options.backward_order = BackwardOrder::first_first; break;
            default:
                small.put_on("cpu", 0);
                small.profile.co_running_lanes = small.profile.host_cores = 2;
                small.profile.co_running_slowdown = {1, 1.3};
                break;
        }
        const FoundBalance found = small.found();
        const std::int64_t best = small.best_step();
        ASSERT_LE(found.lower_bound_ns, best) << "round " << round;
        excess += static_cast<double>(found.step_ns) / static_cast<double>(best) - 1;
        exact += found.step_ns == best ? 1 : 0;
    }
    EXPECT_LT(excess / kRounds, 0.0015) << "the closed form's own eight proposals are 0.7 % off";
    EXPECT_GT(exact, kRounds * 9 / 10);
}

TEST(FindBalance, SimulatesSeveralCutsWhereLanesShareWhatTheClosedFormLeavesOut) {
    // Lanes 0 and 1 alternate on one device, lane 2 has its own: it should get more than a third of the layers.
    PipelineOptions options;
    options.chunks = options.batch = 8;
    options.checkpoint = Checkpoint::never;
    options.hardware.devices = {"cuda:0", "cuda:0", "cuda:1"};
    const FoundBalance shared = find_balance(uniform_profile(12), options, 3, BalanceAlgorithm::optimal);
    EXPECT_TRUE(shared.ranked_by_simulation);
    std::int64_t best = shared.step_ns;
    for_every_balance(12, 3, [&](const Balance& balance) {
        options.balance = balance;
        best = std::min<std::int64_t>(best, simulate(uniform_profile(12), options).step_time.count());
    });
    EXPECT_EQ(shared.step_ns, best);
    EXPECT_LE(shared.lower_bound_ns, best);

    options.hardware.devices = {"cuda:0", "cuda:1", "cuda:2"};
    EXPECT_FALSE(find_balance(uniform_profile(12), options, 3, BalanceAlgorithm::optimal).ranked_by_simulation);
    options.hardware.link = {1e9, 100, LinkSharing::all};
    EXPECT_TRUE(find_balance(uniform_profile(12), options, 3, BalanceAlgorithm::optimal).ranked_by_simulation);
}
}  // namespace
}  // namespace pipescope
