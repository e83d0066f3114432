#include "gui/document/step_history.h"

#include "gui/document/headlines.h"
#include "gui/style/number_format.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace pipescope {
namespace {
/// One lane; each step is a forward and a backward with a pause between them, in ms. The first `warmup` steps are
/// marked so, and losses are 1, 1/2, 1/3, ..
TraceDocument runOf(const std::vector<int>& lengths, int warmup = 0, bool records = true) {
    Timeline timeline{Source::measured, {{"lane 0", "cpu"}}, {}};
    TraceDocument document;
    std::int64_t time = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto step = static_cast<std::int32_t>(i);
        const std::int64_t length = lengths[i] * 1'000'000LL;
        const auto at = [&](double share) {
            return Nanoseconds{time + static_cast<std::int64_t>(share * static_cast<double>(length))};
        };
        timeline.slices.push_back({{step, TaskKind::forward, 0, 0, -1}, LaneId{0}, at(0), at(0.25), 0});
        timeline.slices.push_back({{step, TaskKind::backward, 0, 0, -1}, LaneId{0}, at(0.5), at(1), 0});
        if (records) {
            document.run.steps.push_back({step, at(0), at(1), at(0), at(1), 1.0 / (step + 1), step < warmup});
        }
        time += length;
    }
    document.measured = std::make_shared<const TimelineStore>(timeline);
    return document;
}

TEST(StepHistory, GivesTimesBubblesAndLosses) {
    const StepHistory history = stepHistory(runOf({20, 10, 30}));
    ASSERT_EQ(history.steps.size(), 3U);
    EXPECT_EQ(history.steps[1].time, std::chrono::milliseconds(10));
    EXPECT_NEAR(history.steps[1].bubble.value(), 0.25, 1e-9);
    EXPECT_EQ(history.steps[2].loss, 1.0 / 3);
    EXPECT_EQ(history.median, 0U);
    EXPECT_EQ(history.fastest, 1U);
    EXPECT_EQ(history.slowest, 2U);
    EXPECT_EQ(history.describe(2).replace(QChar(QChar::Nbsp), QLatin1Char(' ')).toStdString(),
              "step 2: 30.00 ms (+50.0 % against the median), bubble 25.0 %, loss 0.33333");
}

TEST(StepHistory, JudgesWithoutTheWarmUp) {
    const StepHistory history = stepHistory(runOf({90, 80, 10, 11, 12, 10}, 2));
    EXPECT_EQ(history.steps[*history.slowest].step, 4);
    EXPECT_EQ(history.steps[*history.fastest].step, 2);
    EXPECT_EQ(history.numSlow(), 0U);
    EXPECT_TRUE(history.steps[1].warmup);
    EXPECT_EQ(typicalStep(runOf({90, 80, 10, 11, 12, 10}, 2)), 3);
}

TEST(StepHistory, JudgesTheWarmUpWhereThereIsNothingElse) {
    EXPECT_EQ(stepHistory(runOf({20, 10, 30}, 3)).median, 0U);
    EXPECT_EQ(stepHistory(runOf({20, 10, 30}, 3)).medianTime, Nanoseconds{20'000'000});
    EXPECT_EQ(stepHistory(runOf({20, 10, 30, 40}, 4)).medianTime, Nanoseconds{25'000'000});
}

TEST(StepHistory, CallsStepsSlowThatLieOutsideTheFence) {
    const StepHistory history = stepHistory(runOf({100, 102, 98, 101, 99, 150, 100, 101, 107, 100}));
    ASSERT_EQ(history.numSlow(), 2U);  // the fence is 105 ms, as the quartiles are close
    EXPECT_TRUE(history.steps[5].slow);
    EXPECT_TRUE(history.steps[8].slow);
    EXPECT_EQ(stepHistory(runOf({60, 80, 100, 120, 140})).numSlow(), 0U) << "a wide spread has no outliers";
    EXPECT_EQ(stepHistory(runOf({10, 10})).numSlow(), 0U);
}

TEST(StepHistory, InterpolatesTheQuartilesOfAFewSteps) {
    EXPECT_EQ(stepHistory(runOf({58, 67, 87})).numSlow(), 0U);
    EXPECT_EQ(stepHistory(runOf({58, 60, 67, 87})).numSlow(), 0U);
    EXPECT_EQ(stepHistory(runOf({58, 58, 59, 59, 87})).numSlow(), 1U);
}

TEST(StepHistory, DoesNotCountTheStepInWhichTheRecordingEnded) {
    TraceDocument document = runOf({20, 22, 24, 2}, 0, false);
    document.run.cut_off = true;
    StepHistory history = stepHistory(document);
    EXPECT_TRUE(history.steps[3].cutOff);
    EXPECT_EQ(history.counted, 3U);
    EXPECT_EQ(history.fastest, 0U);
    EXPECT_EQ(history.steps[3].bubble, std::nullopt);
    EXPECT_EQ(typicalStep(document), 1);
    document = runOf({20, 22, 24, 2});
    document.run.steps.pop_back();  // the training loop recorded the others
    document.run.cut_off = true;
    EXPECT_TRUE(stepHistory(document).steps[3].cutOff);
    EXPECT_FALSE(stepHistory(document).steps[2].cutOff);
}

TEST(StepHistory, DoesNotCountAStepThatLacksTasks) {
    TraceDocument document = runOf({20, 22, 24, 2});
    document.check.faults = {{3, StepFault::missing}};
    const StepHistory history = stepHistory(document);
    EXPECT_EQ(history.counted, 3U);
    EXPECT_EQ(history.fastest, 0U);
    EXPECT_EQ(history.steps[3].bubble, std::nullopt);
    EXPECT_TRUE(history.steps[3].faulty);
    EXPECT_TRUE(history.describe(3).contains(QStringLiteral("tasks are missing or doubled")));
    EXPECT_EQ(history.steps[2].bubble.has_value(), true);
}

TEST(StepHistory, KnowsNoBubblesIfRangesWereLostAndNoLossesIfNoneWereRecorded) {
    TraceDocument document = runOf({20, 10, 30}, 0, false);
    EXPECT_EQ(stepHistory(document).steps[0].loss, std::nullopt);
    EXPECT_EQ(stepHistory(document).median, 0U);
    document.run.warnings = {refusal("ranges were lost", "the recorder lost 1 of 9 ranges")};
    EXPECT_EQ(stepHistory(document).steps[0].bubble, std::nullopt);
}

TEST(StepHistory, KeepsALossThatIsNotANumber) {
    TraceDocument document = runOf({20, 10, 30});
    document.run.steps[1].training_loss = NAN;
    EXPECT_TRUE(std::isnan(stepHistory(document).steps[1].loss.value()));
}

TEST(StepHistory, TellsNoLossOfARunWithoutLosses) {
    TraceDocument document = runOf({20, 10});
    for (StepRecord& step : document.run.steps) {
        step.training_loss = NAN;  // read from a file without one
    }
    EXPECT_FALSE(stepHistory(document).steps[0].loss);
    EXPECT_FALSE(stepHistory(document).describe(0).contains(QStringLiteral("loss")));
}

TEST(StepHistory, SaysThatLengthsAreThoseOfOneRank) {
    TraceDocument document = runOf({20, 10});
    TraceWarning warning = refusal("this is the trace of one rank alone", "alone");
    warning.of_steps = true;
    document.run.warnings = {warning};
    EXPECT_TRUE(stepHistory(document).describe(0).startsWith(QStringLiteral("step 0: ") + formatDuration(20'000'000) +
                                                             QStringLiteral(" of the recorded lanes alone")))
        << stepHistory(document).describe(0).toStdString();
    EXPECT_TRUE(
        measuredHeadline(document, 0)
            .endsWith(QStringLiteral("step 0  ·  step time and bubble not given, this is the trace of one rank alone")))
        << measuredHeadline(document, 0).toStdString();
}

std::vector<std::int32_t> spikesOf(const StepHistory& history) {
    std::vector<std::int32_t> steps;
    for (const StepEntry& each : history.steps) {
        if (each.spike) {
            steps.push_back(each.step);
        }
    }
    return steps;
}

StepHistory withLosses(const std::vector<double>& losses) {
    StepHistory history;
    for (std::size_t index = 0; index < losses.size(); ++index) {
        StepEntry entry;
        entry.step = static_cast<std::int32_t>(index);
        entry.loss = losses[index];
        history.steps.push_back(entry);
    }
    judgeLosses(history);
    return history;
}

TEST(StepHistory, FindsSpikesOfTheLossAndAScaleOfTheOthers) {
    const StepHistory one = withLosses({2.5, 2.4, 2.35, 2300, 2.3, 2.28, 2.2, 2.21, 2.1});
    EXPECT_EQ(spikesOf(one), std::vector<std::int32_t>{3});
    EXPECT_EQ(one.leastLoss, 2.1);
    EXPECT_EQ(one.mostLoss, 2.5);
    EXPECT_TRUE(one.describe(3).contains(QStringLiteral("loss 2300, far from the steps around")));
    // At the ends, too, and downwards.
    EXPECT_EQ(spikesOf(withLosses({2500, 2.4, 2.35, 2.3, 2.28, 2.2})), std::vector<std::int32_t>{0});
    EXPECT_EQ(spikesOf(withLosses({2.5, 2.4, 2.35, 2.3, 2.28, 2200})), std::vector<std::int32_t>{5});
    EXPECT_EQ(spikesOf(withLosses({2.5, 2.4, -500, 2.3, 2.28, 2.2})), std::vector<std::int32_t>{2});
    // A spike that leaves the others readable is marked, and within the scale.
    const StepHistory low = withLosses({4, 3, 2.5, 5.1, 2.3, 2.2, 2.15, 2.1, 2.05, 2});
    EXPECT_EQ(spikesOf(low), std::vector<std::int32_t>{3});
    EXPECT_EQ(low.mostLoss, 5.1);
}

TEST(StepHistory, TakesNoFallOfTheLossForASpike) {
    EXPECT_TRUE(spikesOf(withLosses({1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5})).empty());
    EXPECT_TRUE(spikesOf(withLosses({11, 8, 6, 5, 4.5, 4.2, 4.1, 4.05, 4.02, 4.01})).empty());
    EXPECT_TRUE(spikesOf(withLosses({2, 2, 2, 2, 2, 2})).empty());
    EXPECT_TRUE(spikesOf(withLosses({2, 2.2, 1.9, 2.1, 1.8, 2.15, 1.95, 2.05})).empty());
    EXPECT_TRUE(spikesOf(withLosses({2, 2, 2, 900, 1000, 1100, 1200, 1300})).empty()) << "it diverged";
    EXPECT_TRUE(spikesOf(withLosses({1000, 2})).empty()) << "nothing says which is usual";
}

TEST(StepHistory, ScalesLossesThatAreNumbers) {
    const StepHistory some = withLosses({2, NAN, 3, INFINITY, 2.5});
    EXPECT_EQ(some.leastLoss, 2);
    EXPECT_EQ(some.mostLoss, 3);
    EXPECT_TRUE(spikesOf(some).empty());
    EXPECT_TRUE(some.steps[1].lossIsNoNumber() && some.steps[3].lossIsNoNumber());
    const StepHistory none = withLosses({NAN, NAN});
    EXPECT_GT(none.leastLoss, none.mostLoss);
    EXPECT_EQ(withLosses({2, 900, 2, 2}).lossStepOf(0, 4).step, 1);
    EXPECT_EQ(withLosses({2, 900, 2, NAN, 2}).lossStepOf(0, 5).step, 3);
    EXPECT_EQ(withLosses({2, 2, 2, 2}).lossStepOf(0, 4).step, 3);
}

TEST(StepHistory, IsEmptyWithoutSteps) {
    const StepHistory history = stepHistory(runOf({}));
    EXPECT_TRUE(history.steps.empty());
    EXPECT_EQ(history.median, std::nullopt);
    EXPECT_EQ(history.find(0), std::nullopt);
}

TEST(StepHistory, TakesNoLongerPerStepInALongRun) {
    const std::vector<int> lengths(50'000, 3);
    TraceDocument document = runOf(lengths, 5);
    document.run.cut_off = true;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(stepHistory(document).steps.size(), lengths.size());
    // About 50 ms. Searching the records of the run for each step took over 20 s.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}
}  // namespace
}  // namespace pipescope
