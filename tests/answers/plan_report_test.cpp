#include "answers/plan_report.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

PlanCandidate candidate_of(const std::vector<std::int64_t>& balance, std::int64_t step_ns, Bytes peak_bytes) {
    PlanCandidate candidate;
    candidate.simulation.options.balance = Balance(balance);
    candidate.simulation.step_time = Nanoseconds{step_ns};
    candidate.simulation.samples_per_second = 1e9 / static_cast<double>(step_ns);
    candidate.simulation.micro_batches = 4;
    candidate.simulation.lanes.resize(candidate.simulation.options.balance.num_partitions());
    candidate.simulation.lanes.back().peak_bytes = peak_bytes;
    return candidate;
}

/// A fast candidate on two lanes, the same with more memory, and a slow Pareto candidate on one lane.
Plan three_candidates() {
    Plan plan;
    plan.candidates = {candidate_of({2, 2}, 1'000'000, 2048), candidate_of({1, 3}, 1'000'000, 4096),
                       candidate_of({4}, 2'000'000, 8192)};
    plan.candidates[0].pareto = plan.candidates[2].pareto = true;
    plan.candidates[0].cost = 0.25;
    plan.best = 0;
    return plan;
}

TEST(PlanReport, HasEveryCandidateWithParetoAndCostBehindItsSimulation) {
    const auto object = plan_json(three_candidates());
    ASSERT_EQ(object.at("candidates").size(), 3u);
    EXPECT_EQ(object.at("candidates").at(0).at("cost"), 0.25);
    EXPECT_EQ(object.at("candidates").at(1).at("pareto"), false);
    EXPECT_EQ(object.at("best"), 0);
    EXPECT_TRUE(object.at("infeasible_because").is_null());
}

TEST(PlanReport, TheTableKeepsLowerParetoCandidatesInSight) {
    const std::string text = plan_text(three_candidates(), {1});
    EXPECT_THAT(text, HasSubstr("2 of 3 candidates"));
    EXPECT_THAT(text, Not(HasSubstr("1,3")));
    EXPECT_THAT(plan_text(three_candidates(), {10}), HasSubstr("3 of 3 candidates"));
}

TEST(PlanReport, ShortensBalancesThatWouldMakeARowTooWide) {
    EXPECT_EQ(short_balance(Balance({2, 2, 3})), "2,2,3");
    EXPECT_EQ(short_balance(Balance(std::vector<std::int64_t>(64, 2))), "2 x64");
    std::vector<std::int64_t> rising;
    for (std::int64_t k = 1; k <= 64; ++k) {
        rising.push_back(k);
    }
    EXPECT_LE(short_balance(Balance(rising)).size(), 32u);
    EXPECT_THAT(short_balance(Balance(rising)), AllOf(StartsWith("1,2,3"), HasSubstr(".."), testing::EndsWith("64")));
    Plan plan = three_candidates();
    plan.candidates[0] = candidate_of(rising, 1'234'567, Bytes{123} << 30);
    plan.candidates[0].simulation.options.schedule = Schedule::interleaved_1f1b;
    plan.candidates[0].device_type = "A100";
    plan.candidates[0].simulation.extrapolated = plan.candidates[0].pareto = true;
    std::istringstream lines(plan_text(plan, {10}));
    bool is_table = false;
    for (std::string line; std::getline(lines, line);) {
        is_table = line.starts_with("rank") || (is_table && !line.empty());
        EXPECT_TRUE(!is_table || line.size() <= 135) << line.size() << ": " << line;
    }
}

TEST(PlanReport, HasTheDtypeTheDevicesAndTheSizesToProfile) {
    Plan plan = three_candidates();
    plan.candidates[0].simulation.dtype = "bfloat16";
    plan.candidates[0].simulation.options.optimizer = "adam";
    plan.candidates[0].simulation.options.master_weights = true;
    plan.sizes_to_profile = {1, 2, 16};
    const auto object = plan_json(plan);
    EXPECT_EQ(object.at("sizes_to_profile"), (nlohmann::ordered_json{1, 2, 16}));
    EXPECT_EQ(object.at("candidates").at(0).at("dtype"), "bfloat16");
    EXPECT_EQ(object.at("candidates").at(0).at("num_devices"), 2);
}

TEST(PlanReport, SaysWhyTheNextCandidateLoses) {
    Plan plan = three_candidates();
    EXPECT_THAT(plan_text(plan, {3}), HasSubstr("and needs 4.00 KiB per lane instead of 2.00 KiB"));
    plan.candidates.erase(plan.candidates.begin() + 1);
    EXPECT_THAT(plan_text(plan, {3}), HasSubstr("50.00 % fewer samples"));
    plan.candidates[1] = candidate_of({1, 2, 1}, 1'000'000, 1);
    EXPECT_THAT(plan_text(plan, {3}), HasSubstr("on 3 lanes instead of 2"));
    plan.candidates[1].simulation.feasible = false;
    EXPECT_THAT(plan_text(plan, {3}), AllOf(HasSubstr("no other candidate"), HasSubstr("over the limit")));
    plan.candidates.pop_back();
    EXPECT_EQ(why_next_loses(plan), "it is the only candidate");
}

TEST(PlanReport, CallsADifferenceThatNoPredictionCanTellATie) {
    Plan plan = three_candidates();
    plan.candidates.resize(2);
    plan.candidates[1] = candidate_of({2, 1, 1}, 1'000'040, 1);  // 0.004 % slower, on one lane more
    EXPECT_EQ(why_next_loses(plan), "the next is as fast, on 3 lanes instead of 2");
    plan.candidates[1] = candidate_of({1, 3}, 999'960, 1);
    plan.candidates[1].cost = 0.5;
    plan.candidates[1].device_type = "A100";
    EXPECT_THAT(why_next_loses(plan), AllOf(HasSubstr("2 lanes of A100"), HasSubstr("costs 100.00 % more per sample")));
    plan.candidates[1] = candidate_of({1, 3}, 1'001'000, 1);
    EXPECT_THAT(why_next_loses(plan), HasSubstr("trains 0.10 % fewer"));
}

TEST(PlanReport, ShowsAndComparesExpectedSteps) {
    Plan plan = three_candidates();
    plan.candidates.erase(plan.candidates.begin() + 1);
    plan.candidates[0].simulation.noise = {.mean = Nanoseconds{1'250'000}, .bubble = 0.5};
    EXPECT_THAT(plan_text(plan, {3}),
                AllOf(HasSubstr("50.00 % fewer"), HasSubstr("1.25 ms     800.00  50.00 %"),
                      HasSubstr(" 0.3125  pareto"), HasSubstr("means of steps with the profile's noise")))
        << "without noise, as the other is simulated without";
    plan.candidates[1].simulation.noise = {.mean = Nanoseconds{2'000'000}};
    EXPECT_THAT(plan_text(plan, {3}), HasSubstr("37.50 % fewer"));
    EXPECT_EQ(plan_json(plan).at("candidates").at(0).at("step_mean_ns"), 1'250'000);
    EXPECT_EQ(plan_json(plan).at("candidates").at(0).at("cost"), 0.25);
    EXPECT_EQ(plan_json(plan).at("candidates").at(0).at("cost_mean"), 0.3125);
}

TEST(PlanReport, SaysWhatMakesTheNextSlowerAndWhatWouldBeQuickerButDoesNotFit) {
    Plan plan = three_candidates();
    plan.candidates.erase(plan.candidates.begin() + 1);
    for (PlanCandidate& each : plan.candidates) {
        for (SimulatedLane& lane : each.simulation.lanes) {
            lane.busy = each.simulation.step_time / 2;
        }
    }
    plan.candidates[1].simulation.bubble_fraction = 0.125;
    PlanCandidate quicker = candidate_of({1, 1, 2}, 800'000, 1 << 20);
    quicker.simulation.feasible = false;
    quicker.simulation.options.hardware.memory_limit = 1 << 19;
    quicker.device_type = "A100";
    plan.candidates.push_back(quicker);
    EXPECT_THAT(
        plan_text(plan, {3}),
        AllOf(HasSubstr("its lanes work 100.0 % longer, because they are fewer, and its bubble is 12.5 points larger"),
              HasSubstr("3 lanes of A100, 4 micro-batches, checkpoint except_last, gpipe would train 25.0 % more"),
              HasSubstr("needs 1.00 MiB on one lane, above the limit of 512.0 KiB")));
    const auto object = plan_json(plan);
    EXPECT_EQ(object.at("candidates").at(2).at("device_type"), "A100");
    EXPECT_TRUE(object.at("candidates").at(0).at("device_type").is_null());
    EXPECT_EQ(object.at("candidates").at(0).at("balance_is_optimal"), false);
    EXPECT_EQ(object.at("next_loses_because"), why_next_loses(plan));
}

TEST(PlanReport, WithoutABestThereIsAReason) {
    Plan plan = three_candidates();
    plan.best.reset();
    plan.infeasible_because = "memory_limit is 1; too little; raise it";
    EXPECT_TRUE(plan_json(plan).at("best").is_null());
    EXPECT_EQ(plan_json(plan).at("infeasible_because"), *plan.infeasible_because);
}
}  // namespace
}  // namespace pipescope
