#include "gui/what_if/pinned_scenarios.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/what_if/scenario_figures.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>

namespace pipescope {
namespace {
class PinnedScenariosTest : public testing::Test {
protected:
    void SetUp() override {
        SampleRun run;
        run.partitions = 4;
        profile_ = sampleProfile(run);
        pins_.resize(700, 500);
        pins_.show();
    }

    std::shared_ptr<const SimulatedScenario> scenarioWith(std::int64_t chunks) {
        Scenario scenario = defaultScenario(profile_);
        scenario.options.chunks = chunks;
        return std::make_shared<const SimulatedScenario>(simulateScenario(CheckedProfile(profile_), scenario));
    }

    QString cell(int row, int column) { return pins_.table().model()->index(row, column).data().toString(); }

    Profile profile_;
    PinnedScenarios pins_;
};

TEST_F(PinnedScenariosTest, ComparesEachWithTheFirst) {
    const QAbstractItemModelTester tester(pins_.table().model());
    pins_.pin(scenarioWith(16), QStringLiteral("A"));
    pins_.pin(scenarioWith(2), QStringLiteral("B"));
    ASSERT_EQ(pins_.table().model()->rowCount(), 2);
    EXPECT_EQ(cell(0, 0), QStringLiteral("A"));
    EXPECT_FALSE(cell(0, 2).contains(QLatin1Char('(')));
    EXPECT_TRUE(cell(1, 2).contains(QStringLiteral("(+")));  // a longer step
}

TEST_F(PinnedScenariosTest, ShowsExpectedSteps) {
    for (LayerProfile& layer : profile_.layers) {
        layer.forward_cv = layer.backward_cv = 0.4;
    }
    const auto pending = scenarioWith(16);
    const StepBand band = *stepBand(CheckedProfile(profile_), pending->scenario);
    EXPECT_EQ(scenarioFigures(*pending, nullptr)[0].name, QStringLiteral("Step time without noise"));
    pins_.pin(std::make_shared<const SimulatedScenario>(withNoise(*pending, band)), QStringLiteral("A"));
    EXPECT_EQ(cell(0, 2), formatDuration(band.mean.count()));
    EXPECT_EQ(cell(0, 3), formatShare(band.bubble));
    EXPECT_NE(cell(0, 2), formatDuration(pending->simulation.step_time.count()));
    EXPECT_TRUE(pins_.timelines().accessibleDescription().contains(formatDuration(band.mean.count())));
}

TEST_F(PinnedScenariosTest, ShowsTimesBelowThePictures) {
    EXPECT_TRUE(pins_.timelines().rulerLabels().empty());
    for (const int chunks : {1, 2, 4, 8}) {
        pins_.pin(scenarioWith(chunks), QString::number(chunks));
    }
    for (const QSize& size : {QSize(300, 260), QSize(770, 520), QSize(1600, 900)}) {
        pins_.resize(size);
        QApplication::processEvents();
        const ScenarioTimelines& timelines = pins_.timelines();
        const std::vector<RulerLabel> labels = timelines.rulerLabels();
        ASSERT_GE(labels.size(), 2U) << size.width();
        EXPECT_TRUE(labels[0].text.startsWith(QStringLiteral("0"))) << labels[0].text.toStdString();
        EXPECT_TRUE(labels[1].text.endsWith(QStringLiteral("s"))) << labels[1].text.toStdString();
        for (std::size_t k = 0; k < labels.size(); ++k) {
            EXPECT_TRUE(QRectF(timelines.rect()).contains(labels[k].rect)) << size.width();
            EXPECT_TRUE(size.width() == 300 || labels[k].rect.top() > timelines.lanesRect(3).bottom());
            EXPECT_TRUE(k == 0 || labels[k].rect.left() >= labels[k - 1].rect.right());
        }
    }
}

TEST_F(PinnedScenariosTest, KeepsFourAndSaysSo) {
    for (const int chunks : {1, 2, 4, 8, 16}) {
        pins_.pin(scenarioWith(chunks), QString::number(chunks));
    }
    EXPECT_EQ(pins_.scenarios().size(), 4U);
    EXPECT_TRUE(pins_.message().contains(QStringLiteral("4 places")));
    pins_.pin(scenarioWith(1), QStringLiteral("again"));
    EXPECT_TRUE(pins_.message().contains(QStringLiteral("already")));
    pins_.pin(scenarioWith(0), QStringLiteral("impossible"));
    EXPECT_TRUE(pins_.message().contains(QStringLiteral("cannot run")));
}

TEST_F(PinnedScenariosTest, OpensByEnterAndRemovesByDelete) {
    pins_.pin(scenarioWith(16), QStringLiteral("A"));
    pins_.pin(scenarioWith(2), QStringLiteral("B"));
    QSignalSpy opened(&pins_, &PinnedScenarios::opened);
    pins_.table().selectRow(1);
    QTest::keyClick(&pins_.table(), Qt::Key_Return);
    ASSERT_EQ(opened.count(), 1);
    EXPECT_EQ(opened.front().front().value<Scenario>().options.chunks, 2);
    QTest::keyClick(&pins_.table(), Qt::Key_Delete);
    ASSERT_EQ(pins_.scenarios().size(), 1U);
    EXPECT_EQ(pins_.scenarios().front().name, QStringLiteral("A"));
    QTest::keyClick(&pins_.table(), Qt::Key_Delete);
    QTest::keyClick(&pins_.table(), Qt::Key_Delete);  // nothing left
    EXPECT_TRUE(pins_.scenarios().empty());
}

TEST_F(PinnedScenariosTest, DrawsAllOnOneTimeAxis) {
    const auto shortStep = scenarioWith(16);
    const auto longStep = scenarioWith(1);
    pins_.pin(shortStep, QStringLiteral("A"));
    pins_.pin(longStep, QStringLiteral("B"));
    QApplication::processEvents();
    const ScenarioTimelines& timelines = pins_.timelines();
    EXPECT_NEAR(timelines.pixelAtTime(longStep->timeline->range().end), timelines.lanesRect(1).right() + 1, 1);
    const double end = timelines.pixelAtTime(shortStep->timeline->range().end);
    EXPECT_LT(end, timelines.lanesRect(0).right());
    // The first forward is orange, at the left of lane 0. There is none after the end of the step.
    const QImage image = pins_.timelines().grab().toImage();
    const QRect first = timelines.lanesRect(0);
    const double forward = timelines.pixelAtTime(
        shortStep->timeline->slice(*shortStep->timeline->find({0, TaskKind::forward, 0, 0, -1})).end.count());
    const QPoint inside(static_cast<int>((first.left() + forward) / 2), first.top() + 4);
    EXPECT_EQ(image.pixelColor(inside), styleOf(TaskKind::forward).color);
    for (int x = static_cast<int>(end) + 3; x < first.right(); ++x) {
        EXPECT_NE(image.pixelColor(x, first.top() + 4), styleOf(TaskKind::forward).color);
    }
}
// Two layers of 1e12 operations for the micro-batch of a sample, three times that for training, on two A100.
TEST(ScenarioFigures, ShowTheModelsOperationsAndTheirShareOfThePeak) {
    Profile profile = sampleProfile({});
    for (LayerProfile& layer : profile.layers) {
        layer.flops = {1e12};
    }
    profile.device = "A100";
    profile.dtype = "bfloat16";
    Scenario scenario{sampleOptions({}), {}};
    const SimulatedScenario simulated = simulateScenario(CheckedProfile(profile), scenario);
    const std::vector<ScenarioFigure> figures = scenarioFigures(simulated, nullptr);
    const double seconds = static_cast<double>(simulated.simulation.step_time.count()) / 1e9;
    const double tera = 2.0 * 3.0 * static_cast<double>(scenario.options.batch) / seconds;
    EXPECT_EQ(figures.at(7).key, QStringLiteral("model_tflops_per_second"));
    EXPECT_NEAR(figures.at(7).plain.toDouble(), tera, 1e-9 * tera);
    EXPECT_NEAR(figures.at(8).plain.toDouble(), tera / (2 * 312), 1e-9);
    profile.device = "cpu";
    EXPECT_FALSE(scenarioFigures(simulateScenario(CheckedProfile(profile), scenario), nullptr).at(8).plain.isValid());
}
}  // namespace
}  // namespace pipescope
