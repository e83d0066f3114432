#include "benchmarks/experiments/validation_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<ValidatedCandidate> two_candidates() {
    std::vector<ValidatedCandidate> candidates;
    for (const std::int64_t measured : {100, 200}) {
        ValidatedRun run;
        run.comparison.measured_step_time = std::chrono::milliseconds(measured);
        run.comparison.simulated_step_time = std::chrono::milliseconds(measured + 2);
        run.comparison.step_error = 2.0 / static_cast<double>(measured);
        run.comparison.simulated_bubble_fraction = 0.25;
        run.comparison.measured_bubble_fraction = 0.24;
        PipelineOptions options;
        options.balance = Balance({2, 3});
        options.chunks = 4;
        options.batch = 8;
        candidates.push_back({options, {run}});
    }
    return candidates;
}

TEST(ValidationReport, JsonHasEachCandidateAndTheWhole) {
    const auto object = validation_json(two_candidates(), {});
    ASSERT_EQ(object["candidates"].size(), 2U);
    EXPECT_EQ(object["candidates"][0]["measured_step_ns"], 100'000'000);
    EXPECT_EQ(object["candidates"][0]["balance"], (std::vector<int>{2, 3}));
    EXPECT_TRUE(object["candidates"][0]["peak_error"].is_null());
    EXPECT_NEAR(object["step_error"]["mean"].get<double>(), 0.015, 1e-12);
    EXPECT_NEAR(object["step_error"]["max"].get<double>(), 0.02, 1e-12);
    EXPECT_NEAR(object["bubble_error"]["mean"].get<double>(), 0.01, 1e-12);
    EXPECT_EQ(object["rank_correlation"], 1.0);
    EXPECT_EQ(object["regret"], 0.0);
    EXPECT_TRUE(object["band_coverage"].is_null());
}

TEST(ValidationReport, SpreadNeedsASecondRun) {
    std::vector<ValidatedCandidate> candidates = two_candidates();
    EXPECT_TRUE(validation_json(candidates, {})["spread"].is_null());
    EXPECT_TRUE(validation_json(candidates, {})["candidates"][0]["spread"].is_null());
    EXPECT_THAT(validation_text(candidates, {}, false),
                HasSubstr("in the mean: not judged, how far equal runs differ is not known"));

    candidates[1].runs.push_back(candidates[1].runs[0]);
    candidates[1].runs[1].comparison.measured_step_time = std::chrono::milliseconds(220);
    EXPECT_NEAR(validation_json(candidates, {})["spread"].get<double>(), 20.0 / 210, 1e-12);
    EXPECT_THAT(validation_text(candidates, {}, false),
                AllOf(HasSubstr("spread of equal runs"), Not(HasSubstr("unknown"))));
}

TEST(ValidationReport, TextNamesCandidatesAndErrors) {
    std::vector<ValidatedCandidate> candidates = two_candidates();
    candidates[0].runs[0].dtype = "bfloat16";
    candidates[0].options.optimizer = "adam";
    const std::string text = validation_text(candidates, {}, false);
    EXPECT_THAT(text, testing::StartsWith("dtype bfloat16, optimizer adam\n\n"));
    EXPECT_THAT(text, HasSubstr("+2.00 %"));
    EXPECT_THAT(text, HasSubstr("+1.00 points"));
    EXPECT_THAT(text, HasSubstr("rank correlation 1.000, regret 0.00 %"));
}

/// Each candidate twice, with times that differ by one per cent: quiet enough for a verdict.
std::vector<ValidatedCandidate> repeated_candidates() {
    std::vector<ValidatedCandidate> candidates = two_candidates();
    candidates.push_back(candidates[1]);
    for (ValidatedCandidate& each : candidates) {
        each.runs.push_back(each.runs[0]);
        each.runs[1].comparison.measured_step_time = each.runs[0].comparison.measured_step_time * 99 / 100;
        each.runs[1].comparison.step_error += 0.01;
    }
    return candidates;
}

TEST(ValidationReport, GoalsAreAbsolute) {
    const std::vector<ValidatedCandidate> candidates = repeated_candidates();  // 2, 1 and 1 %
    EXPECT_EQ(validation_json(candidates, {})["reached"], true);
    EXPECT_EQ(validation_json(candidates, {})["allowed_step_error"], 0.03);
    EXPECT_THAT(validation_text(candidates, {}, false),
                AllOf(HasSubstr("step time error of 1.33 % in the mean: reached, the goal is at most 3.00 %"),
                      HasSubstr("rank correlation of 1.000 of predicted and measured throughput: reached, the goal is "
                                "at least 0.900"),
                      HasSubstr("regret of 0.00 % of the pipeline predicted quickest: reached"),
                      HasSubstr("goals: 4 reached, 0 not reached, 0 not judged")));
    ValidationGoal tight;
    tight.step_error = 0.013;
    EXPECT_EQ(validation_json(candidates, tight)["reached"], false);
    EXPECT_THAT(validation_text(candidates, tight, false),
                HasSubstr("in the mean: not reached, the goal is at most 1.30 %"));
}

TEST(ValidationReport, SaysThatAMachineCannotTell) {
    std::vector<ValidatedCandidate> candidates = repeated_candidates();
    for (ValidatedCandidate& each : candidates) {
        each.runs[1].comparison.step_error = each.runs[0].comparison.step_error + 0.4;
    }
    const auto object = validation_json(candidates, {});
    EXPECT_TRUE(object["reached"].is_null());
    EXPECT_TRUE(object["goals"][0]["reached"].is_null());
    EXPECT_EQ(object["goals"][0]["not_judged"], "medians are uncertain by 50.1 %; use more --rounds");
    EXPECT_THAT(
        validation_text(candidates, {}, false),
        AllOf(HasSubstr("in the mean: not judged, medians are uncertain by 50.1 %"), Not(HasSubstr(": reached"))));
}

TEST(ValidationReport, IsReachedOnlyIfEveryGoalIs) {
    std::vector<ValidatedCandidate> candidates = repeated_candidates();
    for (ValidatedRun& run : candidates[0].runs) {
        run.comparison.measured_bubble_fraction = 0.15;  // 10, 1 and 1 points: 4 in the mean
    }
    const auto object = validation_json(candidates, {});
    EXPECT_EQ(object["reached"], false);
    ASSERT_EQ(object["goals"].size(), 4U);
    EXPECT_EQ(object["goals"][0]["name"], "step_error_mean");
    EXPECT_EQ(object["goals"][0]["reached"], true);
    EXPECT_TRUE(object["goals"][0]["not_judged"].is_null());
    EXPECT_EQ(object["goals"][1]["name"], "bubble_error_mean");
    EXPECT_EQ(object["goals"][1]["allowed"], 0.02);
    EXPECT_NEAR(object["goals"][1]["found"].get<double>(), 0.04, 1e-12);
    EXPECT_EQ(object["goals"][1]["reached"], false);
    EXPECT_THAT(validation_text(candidates, {}, false),
                HasSubstr("bubble error of 4.00 points in the mean: not reached, the goal is at most 2.00 points"));
}

TEST(ValidationReport, HasALineForEachGoal) {
    std::vector<ValidatedCandidate> candidates = repeated_candidates();
    for (ValidatedCandidate& each : candidates) {
        for (ValidatedRun& run : each.runs) {
            Comparison& comparison = run.comparison;
            comparison.replay = Replay{comparison.measured_step_time, 0.02, 0.0001, {1000}};
            comparison.lanes.resize(1);
            comparison.lanes[0].measured_peak_bytes = 1000;
            comparison.lanes[0].simulated_peak_bytes = 1005;
        }
    }
    ValidationGoal goal;
    goal.worst_step_error = 0.03;
    EXPECT_THAT(
        validation_text(candidates, goal, false),
        AllOf(
            HasSubstr("step time error of 2.00 % at worst: reached, the goal is at most 3.00 %"),
            HasSubstr("peak memory error of 0.50 % in the mean: reached, the goal is at most 1.00 %"),
            HasSubstr("peak memory error of 0.00 % at the measured instants in the mean: reached"),
            HasSubstr("replay error of measured durations of 2.00 % at worst: not reached, the goal is at most 1.00 %"),
            HasSubstr("replay error with measured gaps of 0.01 % at worst: reached, the goal is at most 0.10 %")));
}

TEST(ValidationReport, TellsWhatAnInterruptedValidationHas) {
    std::vector<ValidatedCandidate> candidates = repeated_candidates();
    candidates[2].runs.clear();
    const auto object = validation_json(candidates, {});
    EXPECT_EQ(object["candidates"].size(), 2U);
    EXPECT_TRUE(object["reached"].is_null()) << "two pipelines are no order";
    EXPECT_THAT(validation_text(candidates, {}, false), HasSubstr("not judged, only 2 of the pipelines were run"));
}

TEST(ValidationReport, TellsTheLoad) {
    std::vector<ValidatedCandidate> candidates = two_candidates();
    EXPECT_TRUE(validation_json(candidates, {})["load"].is_null());
    candidates[0].runs[0].run_load = MachineLoad{0.25, 0, std::nullopt};
    EXPECT_EQ(validation_json(candidates, {})["load"]["others"], 0.25);
}

TEST(ValidationReport, MarkdownIsTables) {
    EXPECT_THAT(validation_text(two_candidates(), {}, true), HasSubstr("| balance |"));
}
}  // namespace
}  // namespace pipescope
