#include "cli/validation_report.h"

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
                HasSubstr("the spread of equal runs is unknown: with --rounds 1"));

    candidates[1].runs.push_back(candidates[1].runs[0]);
    candidates[1].runs[1].comparison.measured_step_time = std::chrono::milliseconds(220);
    EXPECT_NEAR(validation_json(candidates, {})["spread"].get<double>(), 20.0 / 210, 1e-12);
    EXPECT_THAT(validation_text(candidates, {}, false),
                AllOf(HasSubstr("spread of equal runs"), Not(HasSubstr("unknown"))));
}

TEST(ValidationReport, TextNamesCandidatesAndErrors) {
    const std::string text = validation_text(two_candidates(), {}, false);
    EXPECT_THAT(text, HasSubstr("+2.00 %"));
    EXPECT_THAT(text, HasSubstr("+1.00 points"));
    EXPECT_THAT(text, HasSubstr("rank correlation 1.000, regret 0.00 %"));
}

TEST(ValidationReport, JudgesTheMeanStepErrorByTheGoalOrTwiceTheSpread) {
    std::vector<ValidatedCandidate> candidates = two_candidates();  // 1.5 % in the mean
    const ValidationGoal tight{0.01, true};
    EXPECT_EQ(validation_json(candidates, {})["reached"], true);
    EXPECT_THAT(validation_text(candidates, {}, false),
                HasSubstr("step time error of 1.50 % in the mean: reached, 3.00 % is allowed"));
    EXPECT_EQ(validation_json(candidates, tight)["reached"], false);
    EXPECT_THAT(validation_text(candidates, tight, false), HasSubstr("in the mean: not reached, 1.00 % is allowed"));

    // Equal runs of each candidate that differ by 2 %: twice that is more than the goal.
    for (ValidatedCandidate& each : candidates) {
        each.runs.resize(3, each.runs[0]);
        each.runs[1].comparison.measured_step_time = each.runs[0].comparison.measured_step_time * 99 / 100;
        each.runs[2].comparison.measured_step_time = each.runs[0].comparison.measured_step_time * 101 / 100;
    }
    EXPECT_NEAR(validation_json(candidates, tight)["allowed_step_error"].get<double>(), 0.04, 1e-12);
    EXPECT_EQ(validation_json(candidates, tight)["reached"], true);
    EXPECT_THAT(validation_text(candidates, tight, false),
                HasSubstr("in the mean: reached, 4.00 % (twice the spread of equal runs) is allowed"));
    const ValidationGoal emulated{0.01, false};
    EXPECT_EQ(validation_json(candidates, emulated)["allowed_step_error"], 0.01);
    EXPECT_EQ(validation_json(candidates, emulated)["reached"], false);
}

TEST(ValidationReport, IsReachedOnlyIfEveryGoalIs) {
    std::vector<ValidatedCandidate> candidates = two_candidates();
    EXPECT_EQ(validation_json(candidates, {})["reached"], true);
    candidates[0].runs[0].comparison.measured_bubble_fraction = 0.2;  // 5 and 1 points: 3 in the mean
    const auto object = validation_json(candidates, {});
    EXPECT_EQ(object["reached"], false);
    ASSERT_EQ(object["goals"].size(), 2U);
    EXPECT_EQ(object["goals"][0]["name"], "step_error_mean");
    EXPECT_EQ(object["goals"][0]["reached"], true);
    EXPECT_EQ(object["goals"][1]["name"], "bubble_error_mean");
    EXPECT_EQ(object["goals"][1]["allowed"], 0.02);
    EXPECT_NEAR(object["goals"][1]["found"].get<double>(), 0.03, 1e-12);
    EXPECT_EQ(object["goals"][1]["reached"], false);
    EXPECT_THAT(validation_text(candidates, {}, false),
                AllOf(HasSubstr("step time error of 1.50 % in the mean: reached"),
                      HasSubstr("bubble error of 3.00 points in the mean: not reached, 2.00 points are allowed")));
}

TEST(ValidationReport, HasALineForEachGoal) {
    std::vector<ValidatedCandidate> candidates = two_candidates();
    for (ValidatedCandidate& each : candidates) {
        Comparison& comparison = each.runs[0].comparison;
        comparison.replay = Replay{comparison.measured_step_time, 0.02, 0.0001, {1000}};
        comparison.lanes.resize(1);
        comparison.lanes[0].measured_peak_bytes = 1000;
        comparison.lanes[0].simulated_peak_bytes = 1005;
    }
    EXPECT_THAT(
        validation_text(candidates, {0.05, false, 0.03, 0.02}, false),
        AllOf(HasSubstr("step time error of 2.00 % at worst: reached, 3.00 % is allowed"),
              HasSubstr("peak memory error of 0.50 % in the mean: reached, 1.00 % is allowed"),
              HasSubstr("replay error of measured durations of 2.00 % at worst: not reached, 1.00 % is allowed"),
              HasSubstr("replay error with measured gaps of 0.01 % at worst: reached, 0.10 % is allowed")));
}

TEST(ValidationReport, MarkdownIsTables) {
    EXPECT_THAT(validation_text(two_candidates(), {}, true), HasSubstr("| balance |"));
}
}  // namespace
}  // namespace pipescope
