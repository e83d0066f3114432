#include "simulator/validation.h"

#include "schedule/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pipescope {
namespace {
using std::chrono::microseconds;

ValidatedRun run_of(Nanoseconds measured, Nanoseconds simulated) {
    ValidatedRun run;
    run.comparison.measured_step_time = measured;
    run.comparison.simulated_step_time = simulated;
    run.comparison.step_error = static_cast<double>(simulated.count()) / static_cast<double>(measured.count()) - 1;
    return run;
}

ValidatedCandidate candidate_of(std::vector<ValidatedRun> runs) {
    return {PipelineOptions{}, std::move(runs)};
}

TEST(RankCorrelation, IsOneForTheSameOrderAndMinusOneForTheReverse) {
    const std::vector<double> a{1, 5, 2, 9};
    EXPECT_DOUBLE_EQ(rank_correlation(a, std::vector<double>{10, 50, 11, 51}), 1);
    EXPECT_DOUBLE_EQ(rank_correlation(a, std::vector<double>{9, 5, 8, 1}), -1);
}

TEST(RankCorrelation, SharesTheRankOfEqualValues) {
    // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    EXPECT_NEAR(rank_correlation(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 2, 3, 4}), 0.948683298, 1e-9);
}

TEST(RankCorrelation, SaysNothingOfOneSideWithoutDifferences) {
    EXPECT_EQ(rank_correlation(std::vector<double>{1, 1}, std::vector<double>{1, 2}), 0);
    EXPECT_EQ(rank_correlation(std::vector<double>{1, 1}, std::vector<double>{2, 2}), 1);
}

TEST(RankCorrelation, RefusesUnequalLengths) {
    EXPECT_THROW(rank_correlation(std::vector<double>{1}, std::vector<double>{1, 2}), Error);
}

TEST(ErrorsOf, TakesMediansOverTheRuns) {
    const auto candidate =
        candidate_of({run_of(microseconds(100), microseconds(110)), run_of(microseconds(100), microseconds(102)),
                      run_of(microseconds(120), microseconds(108))});
    const CandidateErrors errors = errors_of(candidate);
    EXPECT_EQ(errors.measured_step_time, microseconds(100));
    EXPECT_NEAR(errors.step_error, 0.02, 1e-12);
    EXPECT_NEAR(errors.spread.value(), 0.2, 1e-12);
    EXPECT_FALSE(errors.peak_error);
    EXPECT_FALSE(errors.band_coverage);
}

TEST(ErrorsOf, NamesTheLaneWhosePeakIsFurthestOff) {
    ValidatedRun run = run_of(microseconds(1), microseconds(1));
    run.comparison.lanes.resize(3);
    run.comparison.lanes[0].measured_peak_bytes = 100;
    run.comparison.lanes[0].simulated_peak_bytes = 105;
    run.comparison.lanes[1].measured_peak_bytes = 100;
    run.comparison.lanes[1].simulated_peak_bytes = 90;
    EXPECT_NEAR(errors_of(candidate_of({run})).peak_error.value(), -0.1, 1e-12);
}

TEST(ErrorsOf, CountsMeasuredStepsInsideTheBand) {
    ValidatedRun run = run_of(microseconds(10), microseconds(10));
    run.band = {microseconds(9), microseconds(11)};
    run.measured_steps = {microseconds(8), microseconds(9), microseconds(10), microseconds(11)};
    EXPECT_DOUBLE_EQ(errors_of(candidate_of({run})).band_coverage.value(), 0.75);
}

TEST(ErrorsOf, RefusesACandidateThatNeverRan) {
    EXPECT_THROW(errors_of(candidate_of({})), Error);
}

TEST(Summarize, MeansAndWorstAreOfErrorsWithoutSign) {
    const std::vector<ValidatedCandidate> candidates{candidate_of({run_of(microseconds(100), microseconds(90))}),
                                                     candidate_of({run_of(microseconds(100), microseconds(120))})};
    const ValidationSummary summary = summarize(candidates);
    EXPECT_NEAR(summary.step_error.mean, 0.15, 1e-12);
    EXPECT_NEAR(summary.step_error.max, 0.2, 1e-12);
}

TEST(Summarize, RegretIsWhatTheChosenCandidateLosesToTheBest) {
    const std::vector<ValidatedCandidate> candidates{candidate_of({run_of(microseconds(110), microseconds(90))}),
                                                     candidate_of({run_of(microseconds(100), microseconds(95))})};
    EXPECT_NEAR(summarize(candidates).regret, 0.1, 1e-12);
    EXPECT_DOUBLE_EQ(summarize(candidates).rank_correlation, -1);
}

TEST(Summarize, ChoosingTheBestLeavesNoRegret) {
    const std::vector<ValidatedCandidate> candidates{candidate_of({run_of(microseconds(100), microseconds(70))}),
                                                     candidate_of({run_of(microseconds(110), microseconds(80))})};
    EXPECT_DOUBLE_EQ(summarize(candidates).regret, 0);
}

TEST(Summarize, RefusesAnEmptyList) {
    EXPECT_THROW(summarize({}), Error);
}
TEST(Validation, TakesTheWorstReplayOfACandidatesRuns) {
    std::vector<ValidatedCandidate> candidates(2);
    for (ValidatedCandidate& each : candidates) {
        each.options.batch = 1;
        for (const double error : {-0.001, -0.004}) {
            ValidatedRun run;
            run.comparison.measured_step_time = run.comparison.simulated_step_time = Nanoseconds{1000};
            run.comparison.replay = Replay{Nanoseconds{999}, error, error / 10, {1000, 990}};
            run.comparison.lanes.resize(2);
            for (ComparedLane& lane : run.comparison.lanes) {
                lane.measured_peak_bytes = 1000;
                lane.simulated_peak_bytes = 900;
            }
            each.runs.push_back(run);
        }
    }
    EXPECT_DOUBLE_EQ(*errors_of(candidates[0]).replay_error, -0.004);
    EXPECT_NEAR(*errors_of(candidates[0]).peak_error, -0.1, 1e-12);
    EXPECT_NEAR(*errors_of(candidates[0]).replayed_peak_error, -0.01, 1e-12);
    candidates[1].runs[0].comparison.replay.reset();
    EXPECT_FALSE(errors_of(candidates[1]).replay_error) << "a run that could not be replayed is no good run";
    const ValidationSummary summary = summarize(candidates);
    EXPECT_DOUBLE_EQ(summary.replay_error->max, 0.004);
    EXPECT_DOUBLE_EQ(summary.replay_with_gaps_error->mean, 0.0004);
}

TEST(ValidationGoal, DependsOnWhatIsRunAndOnHowManyCores) {
    EXPECT_EQ(validation_goal(true, 8, 2).step_error, 0.01);
    EXPECT_FALSE(validation_goal(true, 8, 2).or_twice_spread) << "waiting repeats itself";
    EXPECT_EQ(validation_goal(false, 2, 2).step_error, 0.03);
    EXPECT_TRUE(validation_goal(false, 2, 2).or_twice_spread);
    EXPECT_EQ(validation_goal(false, 3, 2).step_error, 0.05);
    EXPECT_FALSE(validation_goal(false, 3, 2).or_twice_spread);
}

TEST(ValidationGoal, HasAPartForEachErrorThatIsKnown) {
    ValidationSummary summary;
    summary.step_error = {0.02, 0.04};
    summary.bubble_error = {0.01, 0.03};
    const auto parts = [&](const ValidationGoal& goal) {
        std::map<std::string, std::pair<double, bool>> found;
        for (const JudgedGoal& each : judge(summary, goal)) {
            found[each.name] = {each.allowed, each.reached()};
        }
        return found;
    };
    using Parts = std::map<std::string, std::pair<double, bool>>;
    EXPECT_EQ(parts(validation_goal(true, 8, 2)), (Parts{{"step_error_mean", {0.01, false}},
                                                         {"step_error_max", {0.03, false}},
                                                         {"bubble_error_mean", {0.005, false}}}));
    summary.peak_error = {0.02, 0.02};
    EXPECT_EQ(parts(validation_goal(false, 3, 2)), (Parts{{"step_error_mean", {0.05, true}}}));
    summary.replay_error = {0.001, 0.02};
    summary.replay_with_gaps_error = {0.0001, 0.002};
    EXPECT_EQ(parts(validation_goal(false, 2, 2)), (Parts{{"step_error_mean", {0.03, true}},
                                                          {"bubble_error_mean", {0.02, true}},
                                                          {"peak_error_mean", {0.01, false}},
                                                          {"replay_error_max", {0.01, false}},
                                                          {"replay_with_gaps_error_max", {0.001, false}}}));
}
}  // namespace
}  // namespace pipescope
