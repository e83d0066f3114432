#include "gui/what_if/scenario_model.h"
#include "tests/gui/patience.h"

#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTest>
#include <QUndoStack>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

class ScenarioModelTest : public testing::Test {
protected:
    void SetUp() override {
        SampleRun run;
        run.partitions = 8;
        Profile profile = sampleProfile(run);
        profile.layers[0].forward_ns[0] *= 3;
        model_.setPatience(1h);  // always at once, however slow the machine
        model_.setProfile(CheckedProfile(profile), std::nullopt);
    }

    Scenario withChunks(std::int64_t chunks) const {
        Scenario scenario = model_.scenario();
        scenario.options.chunks = chunks;
        return scenario;
    }

    ScenarioModel model_;
};

TEST_F(ScenarioModelTest, FollowsEveryChangeAtOnce) {
    QSignalSpy simulated(&model_, &ScenarioModel::simulated);
    model_.change(withChunks(4), QStringLiteral("micro-batches"));
    ASSERT_EQ(simulated.count(), 1);
    EXPECT_EQ(model_.result()->simulation.micro_batches, 4);
    EXPECT_FALSE(model_.isBehind());
    EXPECT_FALSE(model_.isAsRecorded());
    EXPECT_EQ(model_.recordedResult()->scenario, model_.recorded());
}

TEST_F(ScenarioModelTest, MakesOneStepOfUndoOfADragAndAnotherOfTheNext) {
    const Scenario before = model_.scenario();
    model_.startGesture();
    for (const int chunks : {3, 4, 5, 6}) {
        model_.change(withChunks(chunks), QStringLiteral("micro-batches"), 1);
    }
    model_.startGesture();
    model_.change(withChunks(7), QStringLiteral("micro-batches"), 1);
    model_.change(withChunks(8), QStringLiteral("micro-batches"), 1);
    EXPECT_EQ(model_.undoStack().count(), 2);
    model_.undoStack().undo();
    EXPECT_EQ(model_.scenario().options.chunks, 6);
    EXPECT_EQ(model_.result()->simulation.micro_batches, 6);
    model_.undoStack().undo();
    EXPECT_EQ(model_.scenario(), before);
    EXPECT_TRUE(model_.isAsRecorded());
    model_.undoStack().redo();
    EXPECT_EQ(model_.scenario().options.chunks, 6);
}

TEST_F(ScenarioModelTest, ForgetsADragThatEndsWhereItBegan) {
    const auto chunks = model_.scenario().options.chunks;
    model_.startGesture();
    model_.change(withChunks(2), QStringLiteral("micro-batches"), 1);
    model_.change(withChunks(chunks), QStringLiteral("micro-batches"), 1);
    EXPECT_EQ(model_.undoStack().count(), 0);
    EXPECT_TRUE(model_.isAsRecorded());
}

TEST_F(ScenarioModelTest, ShowsTheLatestScenarioOfManyFromTheWorker) {
    model_.setPatience(0ns);
    for (int chunks = 1; chunks <= 12; ++chunks) {
        model_.change(withChunks(chunks), QStringLiteral("micro-batches"), 1);
    }
    EXPECT_TRUE(model_.isBehind());
    std::int64_t last = 0;
    QObject::connect(&model_, &ScenarioModel::simulated, &model_, [&](const auto& result) {
        EXPECT_GT(result->simulation.micro_batches, last);  // never back to an older one
        last = result->simulation.micro_batches;
    });
    ASSERT_TRUE(QTest::qWaitFor([&] { return !model_.isBehind(); }, kPatience));
    EXPECT_EQ(last, 12);
}

TEST_F(ScenarioModelTest, DropsWhatWasAskedOfAnotherProfile) {
    model_.setPatience(0ns);
    model_.change(withChunks(3), QStringLiteral("micro-batches"));
    model_.setProfile(std::nullopt, std::nullopt);
    QSignalSpy simulated(&model_, &ScenarioModel::simulated);
    QTest::qWait(50);
    EXPECT_EQ(simulated.count(), 0);
    EXPECT_FALSE(model_.result());
    EXPECT_EQ(model_.undoStack().count(), 0);
}

TEST_F(ScenarioModelTest, SearchesTheOrderOfAutoInAWorker) {
    Scenario scenario = model_.scenario();
    scenario.options.schedule = Schedule::automatic;
    model_.change(scenario, QStringLiteral("schedule"));
    EXPECT_TRUE(model_.isBehind()) << "however patient, the window does not wait for a search";
    ASSERT_TRUE(QTest::qWaitFor([&] { return !model_.isBehind(); }, kPatience));
    const Simulation& simulation = model_.result()->simulation;
    ASSERT_TRUE(model_.result()->runs());
    EXPECT_TRUE(simulation.lower_bound);
    EXPECT_NE(simulation.options.schedule, Schedule(Schedule::automatic)) << "it is the order found";
    EXPECT_EQ(asSimulated(*model_.result()).options, simulation.options) << "whose noise needs no search";
    PipelineOptions found = scenario.options;
    found.schedule = Schedule::from_csv("auto", "0F0,0B0\n");  // as a search names its table
    EXPECT_EQ(asAsked(found, {}).options, scenario.options) << "but other changes search again";
    found.schedule = Schedule::from_csv("mine.csv", "0F0,0B0\n");
    EXPECT_EQ(asAsked(found, {}).options, found);
    ASSERT_TRUE(QTest::qWaitFor([&] { return model_.optimalBalance().has_value(); }, kPatience));
    model_.undoStack().undo();
    EXPECT_TRUE(model_.isAsRecorded());
}

TEST_F(ScenarioModelTest, AppliesTheBestBalanceAndKnowsIt) {
    Scenario poor = model_.scenario();
    poor.options.balance = Balance({5, 1, 1, 1});
    model_.change(poor, QStringLiteral("cut"));
    const auto slow = model_.result()->simulation.step_time;
    ASSERT_TRUE(QTest::qWaitFor([&] { return model_.optimalBalance().has_value(); }, kPatience));
    const Balance best = *model_.optimalBalance();
    QSignalSpy changed(&model_, &ScenarioModel::scenarioChanged);
    model_.applyBalance(BalanceAlgorithm::optimal);
    ASSERT_TRUE(changed.wait(kPatience));
    EXPECT_EQ(model_.scenario().options.balance, best);
    EXPECT_LT(model_.result()->simulation.step_time, slow);
    model_.undoStack().undo();
    EXPECT_EQ(model_.scenario().options.balance, Balance({5, 1, 1, 1}));
}

TEST_F(ScenarioModelTest, SaysWhatIsWrongInsteadOfThrowing) {
    Scenario wrong = model_.scenario();
    wrong.options.hardware.speeds = {-1};
    model_.change(wrong, QStringLiteral("speeds"));
    EXPECT_FALSE(model_.result()->runs());
    wrong = model_.recorded();
    wrong.deviceType = "abacus";
    model_.change(wrong, QStringLiteral("device"));
    EXPECT_FALSE(model_.result()->runs());
    model_.undoStack().undo();
    model_.undoStack().undo();
    EXPECT_TRUE(model_.result()->runs());
}

TEST_F(ScenarioModelTest, WorksOutWhereStepsLieOnceTheScenarioRests) {
    Profile profile = *model_.profile();
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = 0.1;
        layer.backward_cv = 0.1;
    }
    profile.step_cv = 0.05;
    model_.setProfile(CheckedProfile(profile), std::nullopt);
    model_.change(withChunks(6), QStringLiteral("micro-batches"));
    EXPECT_FALSE(model_.band());  // that of the scenario before is not shown for this one
    ASSERT_TRUE(QTest::qWaitFor([&] { return model_.band().has_value(); }, kPatience));
    const Nanoseconds step = model_.result()->simulation.step_time;
    EXPECT_LT(model_.band()->low, step);
    EXPECT_GT(model_.band()->high, step);
    EXPECT_GE(model_.band()->mean, step);
    EXPECT_EQ(model_.band(), stepBand(CheckedProfile(profile), model_.scenario()));
    EXPECT_EQ(model_.result()->simulation.noise, model_.band());
    EXPECT_EQ(model_.recordedResult()->simulation.noise, stepBand(CheckedProfile(profile), model_.recorded()))
        << "which it is compared with";
    model_.change(withChunks(7), QStringLiteral("micro-batches"));
    EXPECT_TRUE(model_.result()->noisePending);
    EXPECT_EQ(model_.resultWithNoise()->simulation.noise, stepBand(CheckedProfile(profile), model_.scenario()))
        << "for a pinned scenario, which nothing changes any more";
    model_.undoStack().undo();
    model_.undoStack().undo();
    EXPECT_EQ(model_.band(), stepBand(CheckedProfile(profile), model_.recorded()))
        << "that of the recorded scenario is kept";
}

TEST_F(ScenarioModelTest, WaitsForABandThatTheFileBrings) {
    Profile profile = *model_.profile();
    profile.step_cv = 0.05;
    const Scenario recorded = model_.scenario();
    model_.setProfile(CheckedProfile(profile), recorded, true, std::nullopt, true);
    QTest::qWait(400);  // longer than a scenario rests before its band is computed
    EXPECT_FALSE(model_.band());
    const StepBand band{Nanoseconds{1}, Nanoseconds{3}, Nanoseconds{2}, 0.5};
    model_.setRecordedBand(band);
    EXPECT_EQ(model_.band(), band);
    EXPECT_EQ(model_.result()->simulation.noise, band);
    model_.change(withChunks(6), QStringLiteral("micro-batches"));
    EXPECT_FALSE(model_.band());
    ASSERT_TRUE(QTest::qWaitFor([&] { return model_.band().has_value(); }, kPatience)) << "another one is computed";
}

TEST_F(ScenarioModelTest, HasNoBandForAProfileThatTellsOfNoVariation) {
    EXPECT_EQ(stepBand(*model_.profile(), model_.scenario()), std::nullopt);
    Scenario impossible = model_.scenario();
    impossible.options.chunks = 0;
    EXPECT_EQ(stepBand(*model_.profile(), impossible), std::nullopt);
}
}  // namespace
}  // namespace pipescope
