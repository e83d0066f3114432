#include "analysis/run_verdict.h"

#include "simulator/plan/advice.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A report with these root causes, in their order.
BubbleReport report_of(const std::array<double, kNumRootCauses>& shares, RootCause main) {
    BubbleReport report;
    RootCauses& roots = report.roots.emplace();
    for (std::size_t cause = 0; cause < shares.size(); ++cause) {
        roots.parts[cause].share = shares[cause];
    }
    roots.main = main;
    return report;
}

std::vector<RunLane> lanes_of(const std::vector<std::int64_t>& busy) {
    std::vector<RunLane> lanes;
    for (const std::int64_t ns : busy) {
        lanes.push_back({Nanoseconds{ns}, 0, std::nullopt, ns > 0});
    }
    return lanes;
}

VerdictPart part_with(const RunVerdict& verdict, const std::string& text) {
    for (const VerdictPart& part : verdict.parts) {
        if (part.text.find(text) != std::string::npos) {
            return part;
        }
    }
    ADD_FAILURE() << "no part with " << text << " in " << verdict.text();
    return {};
}

TEST(RunVerdict, NamesTheLaneThatWorksLongerBeforeTheRamp) {
    const RunVerdict verdict =
        why_idle(report_of({0.09, 0.06, 0, 0, 0, 0.001}, RootCause::imbalance), lanes_of({123, 100}));
    EXPECT_EQ(
        verdict.text(),
        "15.1 % idle: lane 0 works 23 % longer than lane 1 (6 points), the schedule fills and drains (9 points).");
    EXPECT_DOUBLE_EQ(verdict.idle.value_or(0), 0.151);
    const VerdictPart lanes = part_with(verdict, "lane 0");
    EXPECT_EQ(lanes.evidence, Evidence::lanes);
    EXPECT_EQ(lanes.lane, LaneId{0});
    EXPECT_EQ(part_with(verdict, "fills").evidence, Evidence::bubbles);
}

TEST(RunVerdict, ComparesOneOfManyLanesWithTheMeanOfTheOthers) {
    const RunVerdict verdict =
        why_idle(report_of({0.02, 0.2, 0, 0, 0, 0}, RootCause::imbalance), lanes_of({100, 100, 150, 0, 100}));
    EXPECT_THAT(verdict.text(), HasSubstr("lane 2 works 50 % longer than the other lanes (20 points)"));
}

TEST(RunVerdict, LeadsLateLaunchesAndMessagesToTheirBubbles) {
    const RunVerdict late = why_idle(report_of({0.02, 0, 0, 0.05, 0.3, 0}, RootCause::launch), lanes_of({1, 1}));
    EXPECT_THAT(late.text(),
                StartsWith("37 % idle: the host launches too late (30 points), messages take time (5 points)"));
    EXPECT_EQ(part_with(late, "launches").cause, BubbleCause::launch);
    EXPECT_EQ(part_with(late, "messages").cause, BubbleCause::copy);
    BubbleReport slow = report_of({0.02, 0, 0.1, 0, 0, 0}, RootCause::slow_lane);
    slow.roots->slow_lane = LaneId{3};
    EXPECT_THAT(why_idle(slow, lanes_of({1, 1})).text(),
                HasSubstr("lane 3 takes longer for the same work (10 points)"));
}

TEST(RunVerdict, SaysThatNothingStandsOut) {
    EXPECT_EQ(why_idle(report_of({0.02, 0, 0, 0, 0, 0.002}, RootCause::ramp), lanes_of({1, 1})).text(),
              "2.2 % idle: nothing stands out.");
    EXPECT_EQ(why_idle(report_of({0.11, 0.001, 0, 0, 0, 0.002}, RootCause::ramp), lanes_of({1, 1})).text(),
              "11.3 % idle: the schedule fills and drains (11 points); no other cause takes 3 % of the step.");
    EXPECT_EQ(unknown_idle("ranges were lost").text(), "Idle time is not known: ranges were lost.");
}

TEST(RunVerdict, TakesTheCausesOfBubblesWithoutRootCauses) {
    BubbleReport report;
    report.causes[static_cast<std::size_t>(BubbleCause::next_partition)].share = 0.1;
    report.causes[static_cast<std::size_t>(BubbleCause::finished)].share = 0.2;
    const RunVerdict verdict = why_idle(report, lanes_of({1, 1}));
    EXPECT_EQ(verdict.text(), "30 % idle: " + std::string(describe(BubbleCause::finished)) + " (20 points), " +
                                  std::string(describe(BubbleCause::next_partition)) + " (10 points).");
    EXPECT_EQ(part_with(verdict, "20 points").cause, BubbleCause::finished);
}

TEST(RunVerdict, NamesNoRootCauseThatTakesMoreThanAllIdleTime) {
    BubbleReport report =
        report_of({0.57, 0, 0, 0, 0, -0.14}, RootCause::ramp);  // tasks overlap, which a replay does not
    report.causes[static_cast<std::size_t>(BubbleCause::next_partition)].share = 0.4;
    EXPECT_EQ(why_idle(report, lanes_of({1, 1})).text(),
              "40 % idle: " + std::string(describe(BubbleCause::next_partition)) + " (40 points).");
}

TEST(RunVerdict, SaysWhatOtherLoadTookOfABusyMachine) {
    const auto text_of = [](const MachineLoad& load, double idle) {
        RecordedRun run;
        run.load = load;
        run.why_not_simulated = "it has no profile";
        return verdict_of(run, report_of({0, idle, 0, 0, 0, 0}, RootCause::imbalance), lanes_of({100, 100}),
                          std::nullopt)
            .text();
    };
    EXPECT_THAT(text_of({0.9, 0.1, std::nullopt}, 0.3),
                EndsWith("(30 points). Other processes took 90 % of the cores' time meanwhile, which explains a part "
                         "of the idle time."));
    EXPECT_THAT(text_of({0, 0.2, std::nullopt}, 0.3), HasSubstr(" The host of this virtual machine took 20 % of"));
    EXPECT_THAT(text_of({0.01, 0.01, std::nullopt}, 0.3), EndsWith("(30 points)."));
    EXPECT_THAT(text_of({0.9, 0, std::nullopt}, 0.01), EndsWith("nothing stands out."));
}

TEST(RunVerdict, TellsFromQuietStepsHowMuchOfTheIdleTimeALoadExplains) {
    const auto text_of = [](int quiet, double quiet_idle, double busy_idle, double spread, int busy_ms = 1000) {
        RecordedRun run;
        run.load = MachineLoad{0.2, 0, std::nullopt};
        run.why_not_simulated = "it has no profile";
        BubbleReport report = report_of({0, 0.3, 0, 0, 0, 0}, RootCause::imbalance);
        for (int number = 0; number < 12; ++number) {
            StepRecord& step = run.steps.emplace_back();
            step.step = number;
            step.wall_start = Nanoseconds{number * 2'000'000'000LL};
            step.wall_end = step.wall_start + Nanoseconds{2'000'000'000};
            const bool is_quiet = number < quiet;
            step.start = step.wall_start;
            step.end = step.start + Nanoseconds{(is_quiet ? 1000 : busy_ms) * 1'000'000LL};
            step.load = StepLoad{{is_quiet ? 0.01 : 0.3, 0, std::nullopt}, Nanoseconds{2'000'000'000}};
            report.idle_by_step[number] = (is_quiet ? quiet_idle : busy_idle) + spread * (number % 2 == 0 ? 1 : -1);
        }
        return verdict_of(run, report, lanes_of({100, 100}), std::nullopt).text();
    };
    // Of the twelve steps, six idle 8 points more than the six quiet ones: 4 points of the mean.
    EXPECT_THAT(text_of(6, 0.24, 0.32, 0.01),
                EndsWith(" Other processes took 20 % of the cores' time meanwhile, which explains about 4 points of "
                         "the idle time: 6 steps with less than 5 % of load idle 24 %."));
    EXPECT_THAT(text_of(6, 0.24, 0.26, 0.1), EndsWith(": 6 steps with less than 5 % of load idle no smaller share."))
        << "a difference that chance explains";
    EXPECT_THAT(text_of(6, 0.24, 0.24, 0.01, 1250), EndsWith(" share, but are 20 % shorter than the others."));
    EXPECT_THAT(text_of(6, 0.24, 0.32, 0.01, 1250), EndsWith(" idle 24 %, and are 20 % shorter than the others."));
    EXPECT_THAT(text_of(4, 0.24, 0.32, 0.01), EndsWith(", which explains a part of the idle time."))
        << "too few quiet steps to tell";
    EXPECT_THAT(text_of(12, 0.24, 0.32, 0.01), EndsWith(", which explains a part of the idle time."));
}

/// Five equal layers, of which lane 0 has four.
Advice advice_of(const Profile& profile) {
    PipelineOptions options;
    options.balance = Balance({4, 1});
    options.chunks = options.batch = 8;
    options.checkpoint = Checkpoint::never;
    return advise(CheckedProfile(profile), options);
}

TEST(RunVerdict, ProposesTheBestChangeWithTheRangeOfTheModelsError) {
    const Profile profile = uniform_profile(5);
    Advice advice = advice_of(profile);
    advice.model_error = ModelError{0.02, 0.0, 10};
    RunVerdict verdict = why_idle(report_of({0.02, 0.3, 0, 0, 0, 0}, RootCause::imbalance), lanes_of({400, 100}));
    add_change(advice, profile, verdict);
    ASSERT_TRUE(verdict.change);
    EXPECT_LT(verdict.step_change, -0.1);
    EXPECT_THAT(verdict.text(),
                AllOf(HasSubstr("would save"), HasSubstr(" to "), EndsWith("(the model was 2 % off on this run).")));
    EXPECT_EQ(part_with(verdict, "would save").evidence, Evidence::change);
}

// A model from the run's own times differs from the run if it lacks something of it.
TEST(RunVerdict, StatesTheErrorOfAModelFromTheRunItself) {
    Profile profile = uniform_profile(5);
    Advice advice = advice_of(profile);
    profile.from_trace = true;
    const auto text_with = [&](double error) {
        advice.model_error = ModelError{error, 0.0, 10};
        RunVerdict verdict;
        add_change(advice, profile, verdict);
        return verdict.text();
    };
    EXPECT_THAT(text_with(-0.01), EndsWith("if its tasks take as long as in this run."));
    EXPECT_THAT(text_with(-0.08), EndsWith("(the model was 8 % off on this run)."));
}

TEST(RunVerdict, NamesTheLayersThatMoveIfOnlyOneCutMoves) {
    Profile profile = uniform_profile(5);
    profile.layers[3].name = "conv3";
    Advice advice = advice_of(profile);
    std::erase_if(advice.moves, [](const Move& move) { return move.kind != MoveKind::balance; });
    ASSERT_FALSE(advice.moves.empty());
    advice.moves.front().simulation.options.balance = Balance({3, 2});
    RunVerdict verdict;
    add_change(advice, profile, verdict);
    EXPECT_THAT(verdict.text(), AllOf(HasSubstr("Moving layer conv3 from lane 0 to lane 1 would save"),
                                      HasSubstr("no run checked this model")));
    advice.moves.front().simulation.options.balance = Balance({2, 3});
    verdict = {};
    add_change(advice, profile, verdict);
    EXPECT_THAT(verdict.text(), HasSubstr("Moving layers 2 to 3 from lane 0 to lane 1"));
}

TEST(RunVerdict, SaysWhatCannotBeToldApartInsteadOfASaving) {
    const Profile profile = uniform_profile(5);
    Advice advice = advice_of(profile);
    advice.model_error = ModelError{0.9, 0.0, 10};
    RunVerdict verdict;
    add_change(advice, profile, verdict);
    EXPECT_THAT(verdict.text(),
                AllOf(HasSubstr("may save nothing: "),
                      HasSubstr(" are predicted, but the model was 90 % off on this run"), Not(HasSubstr(" to 9"))));
    EXPECT_EQ(verdict.parts.back().role, VerdictRole::aside) << "no promise";
    advice.model_error = ModelError{0.001, 0.0, 10};
    verdict = {};
    add_change(advice, profile, verdict);
    EXPECT_EQ(verdict.parts.back().role, VerdictRole::change);
    advice.moves.clear();
    verdict = {};
    add_change(advice, profile, verdict);
    EXPECT_EQ(verdict.text(), " No single change of cuts, micro-batches, checkpoints or schedule shortens the step.");
    EXPECT_FALSE(verdict.change);
}
}  // namespace
}  // namespace pipescope
