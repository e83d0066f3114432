#include "simulator/plan/planner.h"

#include "base/error.h"
#include "base/stop_check.h"
#include "simulator/plan/plan_ranking.h"
#include "tests/simulator/profiles.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>
#include <sstream>
#include <string>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Eight layers that save 1000 bytes per sample, with 500 bytes of parameters and gradients each.
Profile eight_layers() {
    Profile profile = uniform_profile(8);
    for (LayerProfile& layer : profile.layers) {
        layer.saved_bytes = {1000};
        layer.output_bytes = {10};
        layer.parameter_bytes = layer.gradient_bytes = 250;
    }
    return profile;
}

PlanRequest request_of(int most, std::int64_t batch) {
    PlanRequest request;
    request.partitions.resize(static_cast<std::size_t>(most));
    std::iota(request.partitions.begin(), request.partitions.end(), 1);
    request.chunks = {1, 4, 16};
    request.schedules = {Schedule::gpipe};
    request.batch = batch;
    return request;
}

TEST(Plan, TriesEveryCombinationOnce) {
    // Three modes. With one micro-batch, never and except_last are equal.
    EXPECT_EQ(plan(eight_layers(), request_of(4, 16)).candidates.size(), 4u * (3 + 3 + 2));
    EXPECT_EQ(plan(eight_layers(), request_of(4, 4)).candidates.size(), 4u * (3 + 2)) << "16 chunks of 4 samples are 4";
    EXPECT_EQ(plan(eight_layers(), request_of(20, 4)).candidates.size(), 8u * (3 + 2))
        << "no more partitions than layers";
    PlanRequest some = request_of(4, 16);
    some.partitions = {4, 2, 4, 20};
    EXPECT_EQ(plan(eight_layers(), some).candidates.size(), 2u * (3 + 3 + 2));
}

TEST(Plan, ListsWhatComesOutTheSameOnceAsTheRequestNamesItFirst) {
    PlanRequest request = request_of(1, 16);
    request.chunks = {1};
    std::vector<Checkpoint> modes;
    for (const PlanCandidate& each : plan(eight_layers(), request).candidates) {
        modes.push_back(each.simulation.options.checkpoint);
    }
    EXPECT_THAT(modes, ::testing::UnorderedElementsAre(Checkpoint::never, Checkpoint::always));
    request.checkpoints = {Checkpoint::except_last, Checkpoint::never};
    const Plan two = plan(eight_layers(), request);
    ASSERT_EQ(two.candidates.size(), 1u);
    EXPECT_EQ(two.candidates[0].simulation.options.checkpoint, Checkpoint::except_last);
}

TEST(Plan, TriesReplicasThatDivideTheBatchAndCountsTheirLanes) {
    PlanRequest request = request_of(2, 12);
    request.replicas = {1, 2, 5};
    request.chunks = {4};
    request.checkpoints = {Checkpoint::never};
    request.hardware.link.bytes_per_second = 1e9;
    const Plan result = plan(eight_layers(), request);
    ASSERT_EQ(result.candidates.size(), 2u * 2) << "5 replicas cannot share 12 samples";
    const PlanCandidate& best = result.candidates.front();
    EXPECT_EQ(best.simulation.options.replicas, 2);
    EXPECT_EQ(num_devices(best.simulation), 4u);
    // 4 lanes with half a batch of 12 each: a million samples take the hours of 4 lanes.
    EXPECT_NEAR(best.cost, 4 * 1e6 / best.simulation.samples_per_second / 3600, 1e-9);
    const auto alone = std::find_if(result.candidates.begin(), result.candidates.end(), [](const PlanCandidate& each) {
        return each.simulation.options.replicas == 2 && each.simulation.lanes.size() == 1;
    });
    ASSERT_NE(alone, result.candidates.end());
    // 8 layers of 1000 + 2000 ns per sample, 6 samples, and a ring of two: all gradients, 2000 bytes, once over the
    // link.
    EXPECT_EQ(alone->simulation.step_time, Nanoseconds{6 * 8 * 3000 + 2000});
    request.replicas = {5};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("replicas from 5 on"));
    request.replicas = {0};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("replicas is 0"));
}

TEST(Plan, RanksByCostWhereAskedTo) {
    PlanRequest request = request_of(4, 16);
    EXPECT_EQ(plan(eight_layers(), request).candidates.front().simulation.lanes.size(), 4u);
    request.goal = PlanGoal::cost;
    const Plan cheapest = plan(eight_layers(), request);
    EXPECT_EQ(cheapest.candidates.front().simulation.lanes.size(), 1u) << "a lane alone has no bubble";
    for (std::size_t k = 1; k < cheapest.candidates.size(); ++k) {
        EXPECT_LE(cheapest.candidates[k - 1].cost, cheapest.candidates[k].cost);
    }
    EXPECT_EQ(parse_plan_goal("cost"), PlanGoal::cost);
    EXPECT_THROW(parse_plan_goal("fun"), UsageError);
}

TEST(Plan, NamesTheSizesToProfileWhereTheBestIsExtrapolated) {
    PlanRequest request = request_of(2, 10);
    request.chunks = {3};
    Profile profile = eight_layers();
    EXPECT_EQ(plan(CheckedProfile(profile), request).sizes_to_profile, (std::vector<std::int64_t>{1, 3, 4}));
    request.chunks = {10};
    EXPECT_TRUE(plan(CheckedProfile(profile), request).sizes_to_profile.empty());
}

/// Applies a remedy to the request, like its reader would.
PlanRequest followed(PlanRequest request, const std::string& remedy) {
    std::istringstream words(remedy);
    std::string option;
    std::string value;
    while (words >> option >> value) {
        if (option == "--memory-limit") {
            request.hardware.memory_limit.reset();
            std::vector<Bytes> limits;
            std::istringstream list(value);
            for (std::string each; std::getline(list, each, ',');) {
                limits.push_back(std::stoll(each));
            }
            if (limits.size() == 1) {
                request.hardware.memory_limit = limits.front();
            } else {
                request.hardware.memory_limits = limits;
            }
        } else if (option == "-n") {
            request.partitions = {std::stoi(value)};
        } else if (option == "-m") {
            request.chunks = {std::stoll(value)};
        } else if (option == "--schedule") {
            request.schedules = {parse_schedule(value)};
        } else if (option == "--checkpoint") {
            request.checkpoints = {parse_checkpoint(value)};
        } else {
            ADD_FAILURE() << "unknown remedy " << remedy;
        }
    }
    return request;
}

std::set<std::string> options_of(const std::vector<std::string>& remedies) {
    std::set<std::string> options;
    for (const std::string& each : remedies) {
        options.insert(each.substr(0, each.find(' ')));
    }
    return options;
}

TEST(Plan, NamesRemediesThatWorkWhenFollowed) {
    Profile profile = eight_layers();
    profile.layers.back().output_bytes = {3000};  // logits: gpipe holds those of the whole batch
    PlanRequest request = request_of(2, 16);
    std::set<std::string> seen;
    int asked = 0;
    for (const Bytes limit : {1500, 5000, 12'000, 20'000, 30'000, 40'000, 50'000, 58'000, 65'000, 75'000}) {
        for (const std::vector<Schedule>& schedules :
             std::vector<std::vector<Schedule>>{{Schedule::gpipe},
                                                {Schedule::one_f_one_b},
                                                {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b}}) {
            for (const std::vector<Checkpoint>& modes : std::vector<std::vector<Checkpoint>>{
                     {Checkpoint::never}, {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}}) {
                request.hardware.memory_limit = limit;
                request.chunks = {1, 2};
                request.schedules = schedules;
                request.checkpoints = modes;
                const Plan none = plan(CheckedProfile(profile), request);
                if (none.best) {
                    EXPECT_TRUE(none.remedies.empty());
                    continue;
                }
                ++asked;
                ASSERT_FALSE(none.remedies.empty()) << "a larger limit always is one";
                for (const std::string& remedy : none.remedies) {
                    EXPECT_TRUE(plan(CheckedProfile(profile), followed(request, remedy)).best)
                        << remedy << " for " << *none.infeasible_because;
                    EXPECT_THAT(*none.infeasible_because, HasSubstr(remedy));
                    seen.insert(remedy.substr(0, remedy.find(' ')));
                }
            }
        }
    }
    EXPECT_GT(asked, 15);
    EXPECT_EQ(seen, (std::set<std::string>{"--checkpoint", "--memory-limit", "--schedule", "-m", "-n"}));
}

TEST(Plan, NamesSeveralOptionsTogetherWhereNoneAloneWouldDo) {
    // gpipe holds the logits of all 64 samples, 1f1b those of one micro-batch: less than the limit with 64 of them.
    Profile profile = eight_layers();
    profile.layers.back().output_bytes = {3000};
    PlanRequest request = request_of(2, 64);
    request.partitions = {2};
    request.chunks = {4};
    request.hardware.memory_limit = 14'000;
    const Plan none = plan(CheckedProfile(profile), request);
    ASSERT_FALSE(none.best);
    ASSERT_EQ(none.remedies.size(), 2u) << *none.infeasible_because;
    EXPECT_THAT(none.remedies[0], HasSubstr("--memory-limit"));
    EXPECT_THAT(none.remedies[1], AllOf(HasSubstr("-m "), HasSubstr("--schedule 1f1b")));
    EXPECT_THAT(none.remedies[1], ::testing::Not(HasSubstr("--checkpoint"))) << "it is among those asked for";
    EXPECT_TRUE(plan(CheckedProfile(profile), followed(request, none.remedies[1])).best) << none.remedies[1];
}

TEST(Plan, NamesNoLimitThatADeviceDoesNotHave) {
    Profile profile = eight_layers();
    for (LayerProfile& layer : profile.layers) {
        layer.flops = {1e9};
    }
    DeviceType type;
    type.name = "small";
    type.flops_per_second = {{"float32", 1e12}};
    type.memory_bytes = 2500;
    type.memory_bytes_per_second = 1e12;
    PlanRequest request = request_of(2, 16);
    request.device_types = {type};
    const Plan none = plan(CheckedProfile(profile), request);
    ASSERT_FALSE(none.best);
    EXPECT_EQ(options_of(none.remedies).count("--memory-limit"), 0u);
    for (const std::string& remedy : none.remedies) {
        EXPECT_TRUE(plan(CheckedProfile(profile), followed(request, remedy)).best) << remedy;
    }
    request.device_types[0].memory_bytes = 100;
    EXPECT_THAT(plan(CheckedProfile(profile), request).infeasible_because.value_or(""),
                AllOf(HasSubstr("no more lanes and micro-batches would keep it"), HasSubstr("more memory")));
}

TEST(Plan, FollowsRemediesOfLimitsByLane) {
    PlanRequest request = request_of(2, 16);
    request.partitions = {2};
    request.hardware.memory_limits = {900, 700};
    const Plan none = plan(eight_layers(), request);
    ASSERT_FALSE(none.best);
    ASSERT_EQ(options_of(none.remedies).count("--memory-limit"), 1u);
    for (const std::string& remedy : none.remedies) {
        EXPECT_TRUE(plan(eight_layers(), followed(request, remedy)).best) << remedy;
    }
}

TEST(Plan, RanksByThroughputAndTakesTheQuickest) {
    const Plan result = plan(eight_layers(), request_of(8, 16));
    ASSERT_EQ(result.best, 0u);
    const Simulation& best = result.candidates[0].simulation;
    EXPECT_EQ(best.lanes.size(), 8u);
    EXPECT_EQ(best.micro_batches, 16);
    EXPECT_EQ(best.options.checkpoint, Checkpoint::never);
    EXPECT_TRUE(result.candidates[0].pareto);
    EXPECT_TRUE(result.candidates[0].balance_is_optimal);
    for (std::size_t k = 1; k < result.candidates.size(); ++k) {
        EXPECT_LE(result.candidates[k].simulation.samples_per_second,
                  result.candidates[k - 1].simulation.samples_per_second);
    }
}

TEST(Plan, RanksTheBestByTheirExpectedSteps) {
    Profile profile = eight_layers();
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = 0.2;
    }
    const Plan result = plan(CheckedProfile(profile), request_of(8, 16));
    PlanRequest without = request_of(8, 16);
    without.most_with_noise = 0;
    const Plan bare = plan(CheckedProfile(profile), without);
    ASSERT_EQ(result.candidates.size(), bare.candidates.size());
    ASSERT_GT(result.candidates.size(), 20u);
    int with_noise = 0;
    for (std::size_t k = 0; k < result.candidates.size(); ++k) {
        const Simulation& each = result.candidates[k].simulation;
        EXPECT_FALSE(bare.candidates[k].simulation.noise);
        EXPECT_TRUE(each.noise || k >= 10) << k;
        with_noise += each.noise ? 1 : 0;
        if (each.noise) {
            EXPECT_EQ(each.noise, simulate(CheckedProfile(profile), each.options).noise) << "as `simulate` has it";
        }
        if (k > 0 && k < 10) {
            EXPECT_LE(relative_throughput(each, result.candidates[k - 1].simulation), 1 + kPlanTie);
        }
    }
    EXPECT_GT(with_noise, 10) << "and some of the Pareto front behind";
    EXPECT_GT(relative_throughput(bare.candidates[0].simulation, bare.candidates[1].simulation), 0.999);
    PlanRequest alone = request_of(8, 16);
    alone.threads = 1;
    EXPECT_EQ(plan(CheckedProfile(profile), alone).candidates[7].simulation.noise,
              result.candidates[7].simulation.noise);
}

TEST(Plan, HasTheSameBestHoweverManyAreShown) {
    // Ten layers of 3000 ns and one of 6000, which bounds the step of many candidates alike. They are told apart by
    // their noise: without it, the best ranks behind the first ten.
    Profile profile = uniform_profile(11);
    profile.layers.back() = layer_of(2000, 4000);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = 0.5;
    }
    PlanRequest request = request_of(11, 16);
    request.chunks = {16};
    request.checkpoints = {Checkpoint::never};
    request.schedules = {Schedule::gpipe, Schedule::one_f_one_b};
    for (const PlanGoal goal : {PlanGoal::speed, PlanGoal::cost}) {
        request.goal = goal;
        request.most_with_noise = 10;
        const Plan few = plan(CheckedProfile(profile), request);
        request.most_with_noise = 100;
        const Plan all = plan(CheckedProfile(profile), request);
        ASSERT_EQ(few.candidates.size(), all.candidates.size());
        for (std::size_t k = 0; k < all.candidates.size(); ++k) {
            EXPECT_EQ(few.candidates[k].simulation.options, all.candidates[k].simulation.options) << k;
            EXPECT_TRUE(all.candidates[k].simulation.noise);
            EXPECT_TRUE(goal == PlanGoal::cost ? relative_cost(all.candidates[k], all.candidates[0]) > 1 - 2 * kPlanTie
                                               : relative_throughput(all.candidates[k].simulation,
                                                                     all.candidates[0].simulation) < 1 + 2 * kPlanTie)
                << "none is better than the best: " << k;
        }
    }
}

/// A candidate on that many lanes, with a step of that many ns for one sample.
PlanCandidate candidate_of(std::size_t lanes, std::int64_t step_ns, Bytes bytes, double cost) {
    PlanCandidate candidate;
    candidate.simulation.lanes.resize(lanes);
    candidate.simulation.lanes[0].peak_bytes = bytes;
    candidate.simulation.step_time = Nanoseconds{step_ns};
    candidate.simulation.samples_per_second = 1e9 / static_cast<double>(step_ns);
    candidate.cost = cost;
    return candidate;
}

std::vector<std::int64_t> ranked_steps(std::vector<PlanCandidate> candidates, PlanGoal goal) {
    rank_candidates(candidates, goal);
    std::vector<std::int64_t> steps;
    for (const PlanCandidate& each : candidates) {
        steps.push_back(each.simulation.step_time.count());
    }
    return steps;
}

TEST(Plan, TakesFewerLanesOfThoseAsFastThenTheCheaper) {
    using Steps = std::vector<std::int64_t>;
    // One ns in 178 ms does not make two lanes better than one.
    EXPECT_EQ(ranked_steps({candidate_of(2, 178'435'931, 1, 2), candidate_of(1, 178'435'932, 9, 1)}, PlanGoal::speed),
              (Steps{178'435'932, 178'435'931}));
    EXPECT_EQ(ranked_steps({candidate_of(1, 100'000, 1, 2), candidate_of(1, 100'001, 9, 1)}, PlanGoal::speed),
              (Steps{100'001, 100'000}));
    // Nor do many small steps add up: 100'000 ties with 100'040, not with 100'080.
    EXPECT_EQ(
        ranked_steps({candidate_of(3, 100'000, 1, 3), candidate_of(2, 100'040, 1, 2), candidate_of(1, 100'080, 1, 1)},
                     PlanGoal::speed),
        (Steps{100'040, 100'000, 100'080}));
    EXPECT_EQ(ranked_steps({candidate_of(1, 300'000, 1, 1), candidate_of(3, 100'000, 1, 1.0001)}, PlanGoal::cost),
              (Steps{100'000, 300'000}))
        << "as cheap, and faster";
}

TEST(Plan, CountsCostPerMillionSamples) {
    PlanRequest request = request_of(1, 4);
    request.chunks = {1};
    request.checkpoints = {Checkpoint::never};
    request.price_per_lane_hour = 3.6;
    // 8 layers of 3000 ns per sample: 24 ms per thousand samples, 24 s per million, at 0.001 per second
    EXPECT_NEAR(plan(eight_layers(), request).candidates[0].cost, 24 * 0.001, 1e-9);
}

TEST(Plan, MarksWhatNothingElseBeatsInSpeedLanesAndMemory) {
    const Plan result = plan(eight_layers(), request_of(4, 16));
    for (const PlanCandidate& each : result.candidates) {
        const bool beaten =
            std::any_of(result.candidates.begin(), result.candidates.end(), [&](const PlanCandidate& other) {
                Bytes mine = 0;
                Bytes theirs = 0;
                for (const SimulatedLane& lane : each.simulation.lanes) {
                    mine = std::max(mine, lane.peak_bytes);
                }
                for (const SimulatedLane& lane : other.simulation.lanes) {
                    theirs = std::max(theirs, lane.peak_bytes);
                }
                return other.simulation.samples_per_second > each.simulation.samples_per_second &&
                       other.simulation.lanes.size() <= each.simulation.lanes.size() && theirs <= mine;
            });
        EXPECT_FALSE(each.pareto && beaten);
    }
    EXPECT_TRUE(std::any_of(result.candidates.begin(), result.candidates.end(), [](const PlanCandidate& each) {
        return each.pareto && each.simulation.lanes.size() == 1;
    })) << "some single lane is the cheapest";
}

TEST(Plan, MarksAllThatIsUnbeatenAndNothingElse) {
    PlanRequest request = request_of(6, 16);
    request.hardware.memory_limit = 9000;
    request.device_types = {};
    const Plan result = plan(eight_layers(), request);
    const auto merits = [](const PlanCandidate& each) {
        return std::array<double, 4>{-each.simulation.samples_per_second,
                                     static_cast<double>(each.simulation.lanes.size()),
                                     static_cast<double>(highest_peak(each.simulation)), each.cost};
    };
    const auto beats = [&](const PlanCandidate& a, const PlanCandidate& b) {
        const auto of_a = merits(a);
        const auto of_b = merits(b);
        return a.simulation.feasible && of_a != of_b &&
               std::equal(of_a.begin(), of_a.end(), of_b.begin(), std::less_equal<>());
    };
    int marked = 0;
    int beaten = 0;
    int infeasible = 0;
    for (const PlanCandidate& each : result.candidates) {
        const bool is_beaten = std::any_of(result.candidates.begin(), result.candidates.end(),
                                           [&](const PlanCandidate& other) { return beats(other, each); });
        EXPECT_EQ(each.pareto, each.simulation.feasible && !is_beaten);
        marked += each.pareto ? 1 : 0;
        beaten += each.simulation.feasible && is_beaten ? 1 : 0;
        infeasible += each.simulation.feasible ? 0 : 1;
    }
    EXPECT_GT(marked, 2);
    EXPECT_GT(beaten, 2);
    EXPECT_GT(infeasible, 2);
}

TEST(Plan, KeepsTheMemoryLimitAndSaysWhatWouldDo) {
    PlanRequest request = request_of(4, 16);
    request.hardware.memory_limit = 7000;
    const Plan result = plan(eight_layers(), request);
    ASSERT_TRUE(result.best);
    for (const SimulatedLane& lane : result.candidates[0].simulation.lanes) {
        EXPECT_LE(lane.peak_bytes, 7000);
    }
    EXPECT_FALSE(result.candidates.back().simulation.feasible);

    request.hardware.memory_limit = 100;
    const Plan none = plan(eight_layers(), request);
    EXPECT_FALSE(none.best);
    ASSERT_TRUE(none.infeasible_because);
    EXPECT_THAT(*none.infeasible_because,
                AllOf(HasSubstr("--memory-limit is 100 B;"), HasSubstr("4 partitions, 16 micro-batches")));
}

TEST(Plan, StopsWhenToldTo) {
    PlanRequest request = request_of(4, 16);
    double last = -1;
    request.progress = [&](double done) {
        EXPECT_GE(done, last);
        last = done;
        return done < 0.5;
    };
    EXPECT_TRUE(plan(eight_layers(), request).cancelled);

    // Seconds of work, of which 20 ms are done once the plan hears of it.
    request = request_of(64, 4096);
    request.chunks = {1024, 2048, 4096};
    for (const int threads : {1, 2}) {
        request.threads = threads;
        request.progress = [](double) { return false; };
        const Plan none = plan(uniform_profile(64), request);
        EXPECT_TRUE(none.cancelled);
        EXPECT_LT(none.candidates.size(), 3U * 64 * 3 / 4);
        // Those who wait for a plan without progress may have it stopped.
        request.progress = {};
        const StopCheck check([] { return false; });
        EXPECT_THROW(plan(uniform_profile(64), request), ComputationStopped);
    }
}

TEST(Plan, TellsOfOtherThreadsUntilTheyAreDone) {
    PlanRequest request = request_of(4, 16);
    request.threads = 3;
    for (int round = 0; round < 20; ++round) {
        double last = -1;
        request.progress = [&](double done) {
            EXPECT_GE(done, last);
            last = done;
            return true;
        };
        EXPECT_FALSE(plan(eight_layers(), request).cancelled);
        EXPECT_EQ(last, 1) << "whoever did the last candidate";
    }
    request.progress = [](double done) { return done < 1; };
    EXPECT_TRUE(plan(eight_layers(), request).cancelled) << "heard even with the last candidate";
}

// 2 to 4 lanes with two partitions each and 1, 4 or 16 micro-batches, but 3 lanes cannot group 16. With a single one
// two of the three checkpoint modes are equal.
TEST(Plan, DealsOutTwoPartitionsALaneWhereInterleaved) {
    PlanRequest request = request_of(4, 16);
    request.schedules = {Schedule::interleaved_1f1b};
    const Plan result = plan(eight_layers(), request);
    ASSERT_EQ(result.candidates.size(), 3u * (2 + 3) + 2 * 3);
    for (const PlanCandidate& each : result.candidates) {
        const PipelineOptions& options = each.simulation.options;
        const std::size_t lanes = each.simulation.lanes.size();
        ASSERT_EQ(options.balance.num_partitions(), 2 * lanes);
        EXPECT_EQ(options.schedule, Schedule::interleaved_1f1b);
        EXPECT_EQ(options.placement.at(lanes), LaneId{0});
        EXPECT_EQ(options.placement.at(lanes + 1), LaneId{1});
    }
    // With free links, twice the partitions halve the ends of the pipeline.
    request.schedules = {Schedule::one_f_one_b, Schedule::interleaved_1f1b};
    request.partitions = {4};
    request.chunks = {4};
    request.checkpoints = {Checkpoint::never};
    const Plan both = plan(eight_layers(), request);
    ASSERT_EQ(both.candidates.size(), 2u);
    EXPECT_EQ(both.candidates[0].simulation.options.schedule, Schedule::interleaved_1f1b);
    EXPECT_NEAR(both.candidates[0].simulation.bubble_fraction, 3.0 / (2 * 4 + 3), 1e-9);
    EXPECT_NEAR(both.candidates[1].simulation.bubble_fraction, 3.0 / (4 + 3), 1e-9);
}

TEST(Plan, KeepsSpeedsDevicesAndTheLimitWhereInterleaved) {
    PlanRequest request = request_of(2, 16);
    request.schedules = {Schedule::interleaved_1f1b};
    request.hardware.speeds = {2, 1};
    request.hardware.devices = {"cuda:0", "cuda:1"};
    const Plan all = plan(eight_layers(), request);
    ASSERT_EQ(all.candidates.size(), 2u + 2 * 3);
    EXPECT_EQ(all.candidates[0].simulation.options.hardware.speeds, (std::vector<double>{2, 1}));
    const auto layers_of = [&](int j) {
        return all.candidates[0].simulation.options.balance.layers_of(PartitionId{j}).size();
    };
    EXPECT_GT(layers_of(0) + layers_of(2), layers_of(1) + layers_of(3)) << "lane 0 is twice as quick";
    request.hardware.memory_limit = 100;
    const Plan none = plan(eight_layers(), request);
    EXPECT_FALSE(none.best);
    EXPECT_THAT(none.infeasible_because.value_or(""), HasSubstr("--memory-limit is 100 B;"));
}

TEST(Plan, RefusesInterleavedWhereNothingCanBe) {
    PlanRequest request = request_of(1, 16);
    request.schedules = {Schedule::interleaved_1f1b};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }),
                AllOf(HasSubstr("needs 2 lanes or more"), HasSubstr("allow other")));
    request.schedules = {Schedule::interleaved_1f1b, Schedule::gpipe};
    EXPECT_EQ(plan(eight_layers(), request).candidates.size(), 3u + 3 + 2) << "gpipe alone";
}

TEST(Plan, OffersDualPipeForTwoEvenHalves) {
    PlanRequest request = request_of(6, 24);
    request.chunks = {4, 7, 8, 9, 12, 24};
    request.checkpoints = {Checkpoint::never};
    request.schedules = {Schedule::dualpipe};
    const Plan found = plan(eight_layers(), request);
    std::set<std::pair<std::size_t, std::int64_t>> shapes;
    for (const PlanCandidate& each : found.candidates) {
        shapes.emplace(each.simulation.lanes.size(), each.simulation.micro_batches);
    }
    const std::set<std::pair<std::size_t, std::int64_t>> expected{{2, 4},  {2, 8},  {2, 12}, {2, 24}, {4, 8},
                                                                  {4, 12}, {4, 24}, {6, 12}, {6, 24}};
    EXPECT_EQ(shapes, expected);
    const std::int64_t apart = found.candidates.front().simulation.step_time.count();
    request.pair_overlap = 1;
    EXPECT_LT(plan(eight_layers(), request).candidates.front().simulation.step_time.count(), apart);
    request.partitions = {3};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("an even number of lanes"));
}

TEST(Plan, UsesTheFirstDevicesAndSpeedsForFewerLanes) {
    PlanRequest request = request_of(2, 4);
    request.hardware.speeds = {1, 2};
    request.hardware.devices = {"cuda:0", "cuda:1"};
    EXPECT_EQ(plan(eight_layers(), request).candidates.size(), 2u * (3 + 2));
    request.partitions.push_back(3);
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("--devices"));
}

Profile eight_layers_with_flops() {
    Profile profile = eight_layers();
    for (LayerProfile& layer : profile.layers) {
        layer.flops = {1e9};
    }
    return profile;
}

DeviceType device_of(const std::string& name, double flops, Bytes memory) {
    DeviceType type;
    type.name = name;
    type.flops_per_second = {{"float32", flops}};
    type.memory_bytes = memory;
    type.memory_bytes_per_second = 1e12;
    type.link_bytes_per_second = 1e10;
    type.link_efficiency = 0.5;
    return type;
}

TEST(Plan, ChoosesAmongDeviceTypesByTheirSpeedMemoryAndPrice) {
    PlanRequest request = request_of(2, 16);
    request.device_types = {device_of("small", 2e12, 5000), device_of("large", 1e12, 1'000'000)};
    request.prices = {{"small", 1}, {"large", 10}};
    const Plan result = plan(eight_layers_with_flops(), request);
    EXPECT_EQ(result.candidates.size(), 2u * 2 * (3 + 3 + 2));
    for (const PlanCandidate& each : result.candidates) {
        EXPECT_TRUE(each.simulation.estimated);
        EXPECT_EQ(each.simulation.options.hardware.link.bytes_per_second, 5e9);
        EXPECT_EQ(each.simulation.options.hardware.memory_limit, each.device_type == "small" ? 5000 : 1'000'000);
        // 8 layers of 1e9 operations forward and 15/8 as many backward, a million samples
        const double busy_hours = 1e6 * 8e9 * (1 + 15.0 / 8) / (each.device_type == "small" ? 2e12 : 1e12) / 3600;
        EXPECT_GE(each.cost, busy_hours * (each.device_type == "small" ? 1 : 10) * 0.99);
        EXPECT_FALSE(each.device_type == "small" && each.simulation.lanes.size() == 1 && each.simulation.feasible);
    }
    request.hardware.devices = {"a", "b"};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers_with_flops(), request); }),
                HasSubstr("is given with --device-types"));
    request.hardware.devices.clear();
    EXPECT_THROW(plan(eight_layers(), request), ProfileError) << "no flops";
}

TEST(Plan, GivesEachLaneItsOwnLimitAndFewerPartitionsTheFirstOfThem) {
    PlanRequest request = request_of(2, 16);
    request.hardware.memory_limits = {1'000'000, 5000};
    const Plan result = plan(eight_layers(), request);
    ASSERT_TRUE(result.best);
    for (const PlanCandidate& each : result.candidates) {
        const Simulation& simulation = each.simulation;
        ASSERT_EQ(simulation.options.hardware.memory_limits.size(), simulation.lanes.size());
        EXPECT_EQ(simulation.options.hardware.memory_limits[0], 1'000'000);
        EXPECT_EQ(simulation.feasible, simulation.lanes.size() == 1 || simulation.lanes[1].peak_bytes <= 5000);
        if (simulation.lanes.size() == 2 && simulation.feasible) {
            EXPECT_GT(simulation.options.balance.layers_per_partition()[0], 4) << "lane 1 holds less than half";
        }
    }
    request.partitions = {2};
    request.hardware.memory_limits = {100, 50};
    EXPECT_THAT(plan(eight_layers(), request).infeasible_because.value_or(""),
                AllOf(HasSubstr("--memory-limit is 100 B, 50 B;"), HasSubstr(" more on each lane, with 2 partitions")));
    request.partitions = {3};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("--memory-limit"));
}

TEST(Plan, TakesTheSmallerOfALanesLimitAndItsDeviceTypesMemory) {
    PlanRequest request = request_of(2, 16);
    request.device_types = {device_of("small", 2e12, 5000), device_of("large", 1e12, 1'000'000)};
    request.hardware.memory_limits = {1'000'000, 4500};
    for (const PlanCandidate& each : plan(eight_layers_with_flops(), request).candidates) {
        const std::vector<Bytes> limits =
            memory_limits_of(each.simulation.options.hardware, static_cast<int>(each.simulation.lanes.size()));
        EXPECT_EQ(limits[0], each.device_type == "small" ? 5000 : 1'000'000);
        EXPECT_TRUE(limits.size() == 1 || limits[1] == 4500);
    }
}

TEST(Plan, TakesADeviceTypesLinkHoweverItsCopiesShareIt) {
    PlanRequest request = request_of(2, 16);
    request.device_types = {device_of("small", 2e12, 5000)};
    request.hardware.link.sharing = LinkSharing::all;
    const Link link = plan(eight_layers_with_flops(), request).candidates.at(0).simulation.options.hardware.link;
    EXPECT_EQ(link.bytes_per_second, 5e9);
    EXPECT_EQ(link.sharing, LinkSharing::all);
}

TEST(Plan, TriesEverySchedule) {
    PlanRequest request = request_of(2, 4);
    request.schedules = {Schedule::gpipe, Schedule::one_f_one_b};
    const Plan result = plan(eight_layers(), request);
    EXPECT_GE(
        std::count_if(result.candidates.begin(), result.candidates.end(),
                      [](const PlanCandidate& each) { return each.simulation.options.schedule == Schedule::gpipe; }),
        2 * (3 + 2));
    EXPECT_GE(std::count_if(
                  result.candidates.begin(), result.candidates.end(),
                  [](const PlanCandidate& each) { return each.simulation.options.schedule == Schedule::one_f_one_b; }),
              2 * 3);
    EXPECT_EQ(PlanRequest{}.schedules,
              (std::vector<Schedule>{Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b}));
}

TEST(Plan, GivesTheSameAnswerWithAnyNumberOfThreads) {
    PlanRequest request = request_of(4, 12);
    request.chunks = {1, 2, 3, 4, 5, 12};
    request.hardware.memory_limit = 6000;
    request.threads = 1;
    const Plan one = plan(eight_layers(), request);
    request.threads = 5;
    const Plan many = plan(eight_layers(), request);
    ASSERT_EQ(one.candidates.size(), many.candidates.size());
    for (std::size_t k = 0; k < one.candidates.size(); ++k) {
        EXPECT_EQ(one.candidates[k].simulation.options, many.candidates[k].simulation.options);
        EXPECT_EQ(one.candidates[k].simulation.step_time, many.candidates[k].simulation.step_time);
        EXPECT_EQ(one.candidates[k].pareto, many.candidates[k].pareto);
    }
}

TEST(Plan, PassesOnWhatProgressThrows) {
    PlanRequest request = request_of(4, 16);
    request.progress = [](double) -> bool { throw UsageError("enough"); };
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("enough"));
}

TEST(Plan, RefusesARequestWithoutCandidates) {
    PlanRequest request = request_of(0, 4);
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("0 numbers of"));
    request.partitions = {2, 0};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("partitions is 0"));
    request.partitions = {9, 12};
    EXPECT_THROW(plan(eight_layers(), request), BalanceError);
    request = request_of(2, 4);
    request.chunks = {0};
    EXPECT_THAT(thrown<UsageError>([&] { plan(eight_layers(), request); }), HasSubstr("chunks is 0"));
    request.chunks.clear();
    EXPECT_THROW(plan(eight_layers(), request), UsageError);
}
TEST(Shortfalls, ListTheWorstLaneFirstAndNoneThatFits) {
    Simulation simulation;
    simulation.lanes.resize(4);
    for (std::size_t lane = 0; lane < 4; ++lane) {
        simulation.lanes[lane].peak_bytes = 100;
    }
    EXPECT_TRUE(shortfalls(simulation).empty()) << "there is no limit";
    simulation.options.hardware.memory_limits = {100, 90, 400, 20};
    const std::vector<Shortfall> found = shortfalls(simulation);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].lane, LaneId{3});
    EXPECT_EQ(found[0].limit, 20);
    EXPECT_EQ(found[0].bytes(), largest_shortfall(simulation));
    EXPECT_EQ(found[1].lane, LaneId{1});
    EXPECT_EQ(found[1].peak, 100);
}
}  // namespace
}  // namespace pipescope
