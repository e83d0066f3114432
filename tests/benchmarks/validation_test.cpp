#include "benchmarks/experiments/validation.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

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

// Separate medians of each column would show 326 measured, 169 simulated and -32 % in one row.
TEST(ErrorsOf, ShowsOneRunWholeThatOfMedianError) {
    ValidatedRun middle = run_of(microseconds(250), microseconds(169));
    middle.comparison.simulated_bubble_fraction = 0.25;
    middle.comparison.measured_bubble_fraction = 0.5;
    const auto candidate = candidate_of(
        {run_of(microseconds(326), microseconds(350)), middle, run_of(microseconds(400), microseconds(160))});
    const CandidateErrors errors = errors_of(candidate);
    EXPECT_EQ(errors.measured_step_time, microseconds(250));
    EXPECT_EQ(errors.simulated_step_time, microseconds(169));
    EXPECT_NEAR(errors.step_error, 169.0 / 250 - 1, 1e-12);
    EXPECT_EQ(errors.bubble_error, -0.25);
    EXPECT_NEAR(errors.spread.value(), 150.0 / 326, 1e-12);
    EXPECT_GT(errors.uncertainty.value(), 0.3);
    EXPECT_FALSE(errors.peak_error);
    EXPECT_FALSE(errors.band_coverage);
    EXPECT_FALSE(errors.is_mean);
}

// Twice the standard error of the median: about sqrt(pi / 2) that of the mean.
TEST(ErrorsOf, IsMoreCertainOfMoreRuns) {
    std::vector<ValidatedRun> runs;
    std::vector<double> uncertainties;
    for (int round = 0; round < 4; ++round) {
        for (const int step : {90, 110}) {
            runs.push_back(run_of(microseconds(100), microseconds(step)));
            runs.back().comparison.step_error = step / 100.0 - 1;
        }
        uncertainties.push_back(errors_of(candidate_of(runs)).uncertainty.value());
    }
    EXPECT_NEAR(uncertainties.front(), 2 * 1.2533 * std::sqrt(0.02) / std::sqrt(2), 1e-4);
    EXPECT_NEAR(uncertainties.back(), 2 * 1.2533 * std::sqrt(0.08 / 7) / std::sqrt(8), 1e-4);
    EXPECT_EQ(errors_of(candidate_of({runs.front()})).uncertainty, std::nullopt);
}

TEST(ErrorsOf, ComparesMeansWhereTheProfileKnowsNoise) {
    ValidatedRun run = run_of(microseconds(100), microseconds(90));
    run.comparison.measured_step_mean = microseconds(110);
    run.comparison.simulated_step_mean = microseconds(111);
    run.comparison.step_error = 1.0 / 110;
    const CandidateErrors errors = errors_of(candidate_of({run, run}));
    EXPECT_TRUE(errors.is_mean);
    EXPECT_EQ(errors.measured_step_time, microseconds(110));
    EXPECT_EQ(errors.simulated_step_time, microseconds(111));
    EXPECT_EQ(errors.step_error, 1.0 / 110);
    EXPECT_EQ(errors.spread, 0);
    EXPECT_EQ(errors.uncertainty, 0);
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

TEST(Summarize, TellsTheHighestLoadOfAllProfilesAndRuns) {
    ValidatedRun run = run_of(microseconds(1), microseconds(1));
    EXPECT_FALSE(summarize(std::vector{candidate_of({run})}).load);
    run.profile_load = MachineLoad{0.1, 0.2, std::nullopt};
    ValidatedRun other = run_of(microseconds(1), microseconds(1));
    other.run_load = MachineLoad{0.3, 0.1, 0.5};
    EXPECT_EQ(summarize(std::vector{candidate_of({run, other})}).load, (MachineLoad{0.3, 0.2, 0.5}));
}

TEST(Candidates, ThatNeverRanAreLeftOutOfAnInterruptedValidation) {
    const std::vector<ValidatedCandidate> candidates{candidate_of({run_of(microseconds(1), microseconds(1))}),
                                                     candidate_of({})};
    EXPECT_EQ(candidates_that_ran(candidates).size(), 1U);
}

/// Value found, whether the goal is reached, and whether it is judged.
using Verdict = std::tuple<double, bool, bool>;
std::map<std::string, Verdict> verdicts(const ValidationSummary& summary, const ValidationGoal& goal) {
    std::map<std::string, Verdict> found;
    for (const JudgedGoal& each : judge(summary, goal)) {
        found[each.name] = {each.allowed, each.reached(), each.is_judged()};
    }
    return found;
}

/// Results of five pipelines whose medians are certain to half a per cent.
ValidationSummary quiet_summary() {
    ValidationSummary summary;
    summary.candidates = 5;
    summary.uncertainty = 0.005;
    summary.step_error = {0.02, 0.04};
    summary.bubble_error = {0.01, 0.03};
    summary.rank_correlation = 0.9;
    summary.regret = 0.02;
    return summary;
}

TEST(ValidationGoal, DependsOnWhatIsRunAndOnHowManyCores) {
    EXPECT_EQ(validation_goal(true, 8, 2).step_error, 0.01);
    EXPECT_EQ(validation_goal(true, 8, 2).regret, 0.01);
    EXPECT_EQ(validation_goal(false, 2, 2).step_error, 0.03);
    EXPECT_EQ(validation_goal(false, 3, 2).step_error, 0.05);
    EXPECT_FALSE(validation_goal(false, 3, 2).peak_error);
    const ValidationGoal calibrated = validation_goal(false, 3, 2, true);
    EXPECT_EQ(calibrated.step_error, 0.015);
    EXPECT_EQ(calibrated.worst_step_error, 0.038);
    EXPECT_EQ(calibrated.bubble_error, 0.01);
    EXPECT_EQ(validation_goal(false, 2, 2, true, true).step_error, 0.04);
    EXPECT_FALSE(validation_goal(false, 2, 2, true, true).worst_step_error);
}

TEST(ValidationGoal, HasAPartForEachErrorThatIsKnown) {
    ValidationSummary summary = quiet_summary();
    using Verdicts = std::map<std::string, Verdict>;
    EXPECT_EQ(verdicts(summary, validation_goal(true, 8, 2)), (Verdicts{{"step_error_mean", {0.01, false, true}},
                                                                        {"step_error_max", {0.03, false, true}},
                                                                        {"bubble_error_mean", {0.005, false, true}},
                                                                        {"rank_correlation", {0.9, true, true}},
                                                                        {"regret", {0.01, false, true}}}));
    summary.peak_error = {0.02, 0.02};
    EXPECT_EQ(verdicts(summary, validation_goal(false, 3, 2)), (Verdicts{{"step_error_mean", {0.05, true, true}},
                                                                         {"rank_correlation", {0.9, true, true}},
                                                                         {"regret", {0.05, true, true}}}));
    summary.replay_error = {0.001, 0.02};
    summary.replay_with_gaps_error = {0.0001, 0.002};
    summary.replayed_peak_error = {0.002, 0.03};
    EXPECT_EQ(verdicts(summary, validation_goal(false, 2, 2)),
              (Verdicts{{"step_error_mean", {0.03, true, true}},
                        {"bubble_error_mean", {0.02, true, true}},
                        {"peak_error_mean", {0.01, false, true}},
                        {"rank_correlation", {0.9, true, true}},
                        {"regret", {0.03, true, true}},
                        {"replay_error_max", {0.01, false, true}},
                        {"replay_with_gaps_error_max", {0.001, false, true}},
                        {"replayed_peak_error_mean", {0.01, true, true}}}));
}

TEST(ValidationGoal, IsMissedByAnOrderThatWasPredictedWrong) {
    ValidationSummary summary = quiet_summary();
    summary.rank_correlation = 0.7;
    EXPECT_EQ(verdicts(summary, {})["rank_correlation"], (Verdict{0.9, false, true}));
    EXPECT_EQ(all_reached(judge(summary, {})), false);
    summary.rank_correlation = 1;
    EXPECT_EQ(all_reached(judge(summary, {})), true);
    summary.candidates = 2;
    EXPECT_FALSE(std::get<2>(verdicts(summary, {})["rank_correlation"])) << "two are in order by chance";
    EXPECT_FALSE(std::get<2>(verdicts(summary, {})["regret"]));
    EXPECT_TRUE(std::get<2>(verdicts(summary, {})["step_error_mean"]));
}

// Differences of a third between equal runs hide all errors: goals that depend on times are neither reached nor missed.
// Other goals are judged.
TEST(ValidationGoal, IsNotJudgedWhereTheMachineDoesNotRepeatItself) {
    ValidationSummary summary = quiet_summary();
    summary.replay_error = {0.2, 0.2};
    summary.replay_with_gaps_error = {0.0001, 0.0002};
    summary.replayed_peak_error = {0.002, 0.002};
    summary.uncertainty = 0.329;
    for (const double error : {0.001, 0.5}) {
        summary.step_error = {error, error};
        for (const JudgedGoal& each : judge(summary, {})) {
            const bool on_times = each.name != "replay_with_gaps_error_max" && each.name != "replayed_peak_error_mean";
            EXPECT_EQ(each.is_judged(), !on_times) << each.name;
            EXPECT_EQ(each.reached(), !on_times) << each.name;
            EXPECT_EQ(each.not_judged, on_times ? "medians are uncertain by 32.9 %; use more --rounds" : "")
                << each.name;
        }
        EXPECT_EQ(all_reached(judge(summary, {})), std::nullopt);
    }
    summary.replayed_peak_error = {0.5, 0.5};
    EXPECT_EQ(all_reached(judge(summary, {})), false) << "one is missed, whatever the others are";
    summary.uncertainty.reset();
    EXPECT_EQ(judge(summary, {}).front().not_judged, "how far equal runs differ is not known; use --rounds 3 or more");
    summary.uncertainty = 0.03;
    EXPECT_TRUE(judge(summary, {}).front().is_judged());
}
}  // namespace
}  // namespace pipescope
