#include "gui/what_if/balance_bar.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/scenario_model.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPushButton>
#include <QTest>
#include <QUndoStack>

#include <algorithm>
#include <set>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

class BalanceBarTest : public testing::Test {
protected:
    void open(int layers, const Balance& balance) {
        SampleRun run;
        run.partitions = layers;
        Scenario scenario{sampleOptions(run), {}};
        scenario.options.balance = balance;
        model_.setPatience(1h);
        model_.setProfile(sampleProfile(run), scenario);
        editor_.resize(1000, 220);
        editor_.show();
        QApplication::processEvents();
    }

    BalanceBar& bar() { return editor_.bar(); }
    const Balance& balance() { return model_.scenario().options.balance; }
    QPoint on(std::size_t cut) { return {static_cast<int>(bar().cutX(cut)), bar().height() / 2}; }

    ScenarioModel model_;
    BalanceEditor editor_{model_};
};

TEST_F(BalanceBarTest, MovesACutByDraggingItInOneStepOfUndo) {
    open(12, Balance({4, 4, 4}));
    const double layer = (bar().cutX(1) - bar().cutX(0)) / 4;
    const QPoint from = on(0);
    QTest::mousePress(&bar(), Qt::LeftButton, {}, from);
    for (int k = 1; k <= 10; ++k) {
        QTest::mouseMove(&bar(), from + QPoint(static_cast<int>(layer * 0.2 * k), 0));
    }
    QTest::mouseRelease(&bar(), Qt::LeftButton, {}, from + QPoint(static_cast<int>(layer * 2), 0));
    EXPECT_EQ(balance(), Balance({6, 2, 4}));
    EXPECT_EQ(model_.result()->scenario.options.balance, balance());  // live
    EXPECT_EQ(model_.undoStack().count(), 1);
    QTest::mouseMove(&bar(), {30, 30});
    EXPECT_EQ(balance(), Balance({6, 2, 4}));  // released is released
    model_.undoStack().undo();
    EXPECT_EQ(balance(), Balance({4, 4, 4}));
}

TEST_F(BalanceBarTest, TellsCostAndMemoryOfEveryPlaceThatADraggedCutPasses) {
    open(12, Balance({8, 2, 2}));
    ASSERT_TRUE(QTest::qWaitFor([&] { return bar().ghostX(0).has_value(); }, kPatience));
    const double ghost = *bar().ghostX(0);
    const Profile& profile = *model_.profile();
    const QPoint from = on(0);
    QTest::mousePress(&bar(), Qt::LeftButton, {}, from);
    std::set<std::int64_t> passed;
    for (int moved = 0; moved <= from.x() / 2; moved += 15) {
        QTest::mouseMove(&bar(), from - QPoint(moved, 0));
        const std::int64_t layers = balance().layers_per_partition()[0];
        passed.insert(layers);
        // All layers have the same cost: a forward, a recompute if there is one, a backward.
        const LayerSums sums = layerSums(profile, model_.scenario());
        std::int64_t longest = 0;
        const Simulation own = simulate(CheckedProfile(profile), model_.scenario().options);
        for (std::size_t j = 0; j < 3; ++j) {
            const double time = sums.timeOf(balance().layers_of(PartitionId{static_cast<int>(j)}));
            longest = std::max(longest, static_cast<std::int64_t>(time));
            const QStringList facts = bar().partitionFacts(j);
            ASSERT_EQ(facts.size(), 3);
            EXPECT_TRUE(facts[0].startsWith(QString::number(balance().layers_per_partition()[j])));
            EXPECT_TRUE(facts[1].contains(formatDuration(static_cast<std::int64_t>(time))));
            EXPECT_TRUE(facts[2].contains(formatBytes(own.lanes[j].peak_bytes))) << facts[2].toStdString();
        }
        EXPECT_TRUE(editor_.facts().contains(formatDuration(longest))) << editor_.facts().toStdString();
        ASSERT_TRUE(bar().ghostX(0)) << "the best cuts are gone while one is dragged";
        EXPECT_EQ(*bar().ghostX(0), ghost);
    }
    QTest::mouseRelease(&bar(), Qt::LeftButton, {}, from - QPoint(from.x() / 2, 0));
    EXPECT_GE(passed.size(), 4U);
    const Balance dragged = balance();
    model_.undoStack().undo();
    EXPECT_EQ(balance(), Balance({8, 2, 2}));
    EXPECT_EQ(model_.result()->scenario.options.balance, balance());
    model_.undoStack().redo();
    EXPECT_EQ(balance(), dragged);
    EXPECT_TRUE(bar().partitionFacts(0)[0].startsWith(QString::number(dragged.layers_per_partition()[0])));
}

TEST_F(BalanceBarTest, TakesTheBestCutsAtAPressOfTheButton) {
    open(12, Balance({8, 2, 2}));
    ASSERT_TRUE(QTest::qWaitFor([&] { return bar().ghostX(0).has_value(); }, kPatience));
    const Balance best = *model_.optimalBalance();
    EXPECT_NE(best, balance());
    const Nanoseconds before = model_.result()->simulation.step_time;
    QTest::mouseClick(editor_.findChild<QPushButton*>(), Qt::LeftButton);
    ASSERT_TRUE(QTest::qWaitFor([&] { return balance() == best; }, kPatience));
    EXPECT_LT(model_.result()->simulation.step_time, before);
    for (std::size_t cut = 0; cut < 2; ++cut) {
        EXPECT_NEAR(bar().cutX(cut), bar().ghostX(cut).value_or(bar().cutX(cut)), 1);
    }
    EXPECT_TRUE(editor_.facts().contains(QStringLiteral("these are the best cuts"))) << editor_.facts().toStdString();
    model_.undoStack().undo();
    EXPECT_EQ(balance(), Balance({8, 2, 2}));
}

TEST_F(BalanceBarTest, LeavesCutsAloneWhereNoneIsGrabbed) {
    open(12, Balance({4, 4, 4}));
    const QPoint between((on(0) + on(1)) / 2);
    QTest::mousePress(&bar(), Qt::LeftButton, {}, between);
    QTest::mouseMove(&bar(), between + QPoint(200, 0));
    QTest::mouseRelease(&bar(), Qt::LeftButton, {}, between + QPoint(200, 0));
    EXPECT_EQ(balance(), Balance({4, 4, 4}));
}

TEST_F(BalanceBarTest, MovesTheFocusedCutByKeys) {
    open(30, Balance({10, 10, 10}));
    bar().setFocus(Qt::TabFocusReason);
    EXPECT_EQ(bar().focusedCut(), 0U);
    QTest::keyClick(&bar(), Qt::Key_Right);
    EXPECT_EQ(balance(), Balance({11, 9, 10}));
    QTest::keyClick(&bar(), Qt::Key_Tab);
    EXPECT_EQ(bar().focusedCut(), 1U);
    EXPECT_TRUE(bar().hasFocus());
    QTest::keyClick(&bar(), Qt::Key_Left, Qt::ShiftModifier);
    EXPECT_EQ(balance(), Balance({11, 1, 18}));  // as far as it goes
    QTest::keyClick(&bar(), Qt::Key_End);
    EXPECT_EQ(balance(), Balance({11, 18, 1}));
    QTest::keyClick(&bar(), Qt::Key_Backtab);
    EXPECT_EQ(bar().focusedCut(), 0U);
    QTest::keyClick(&bar(), Qt::Key_Home);
    EXPECT_EQ(balance(), Balance({1, 28, 1}));
    EXPECT_TRUE(bar().accessibleDescription().contains(QStringLiteral("cut 1 of 2")));
}

TEST_F(BalanceBarTest, LetsTheFocusGoOnBehindTheLastCut) {
    open(12, Balance({4, 4, 4}));
    QWidget frame;
    auto* layout = new QHBoxLayout(&frame);
    auto* before = new QLineEdit(&frame);
    auto* own = new BalanceBar(&frame);
    auto* after = new QLineEdit(&frame);
    for (QWidget* each : std::initializer_list<QWidget*>{before, own, after}) {
        layout->addWidget(each);
    }
    own->setScene({model_.profile(), layerSums(*model_.profile(), model_.scenario()), balance(), {}, {}, {}});
    editor_.hide();
    frame.show();
    frame.activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(&frame, kPatience));
    before->setFocus();
    for (int tab = 0; tab < 2; ++tab) {
        QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
        EXPECT_TRUE(own->hasFocus());
    }
    QTest::keyClick(own, Qt::Key_Tab);
    EXPECT_TRUE(after->hasFocus());
    QTest::keyClick(after, Qt::Key_Backtab);
    EXPECT_TRUE(own->hasFocus());
    EXPECT_EQ(own->focusedCut(), 1U);
}

TEST_F(BalanceBarTest, ShowsTheBestCutsAsGhosts) {
    open(12, Balance({8, 2, 2}));
    ASSERT_TRUE(QTest::qWaitFor([&] { return bar().ghostX(0).has_value(); }, kPatience));
    EXPECT_LT(*bar().ghostX(0), bar().cutX(0));
    EXPECT_TRUE(editor_.facts().contains(QStringLiteral("better cuts")));
    QApplication::processEvents();
    const QImage image = bar().grab().toImage();
    const QColor ring = timelineColors(bar().palette()).text;
    int found = 0;
    for (int x = -5; x <= 5; ++x) {
        const QColor pixel = image.pixelColor(static_cast<int>(*bar().ghostX(0)) + x, 5);
        found += std::abs(pixel.lightness() - ring.lightness()) < 60 ? 1 : 0;
    }
    EXPECT_GE(found, 2);  // both sides of the ring
}

TEST_F(BalanceBarTest, NamesNoBytesThatTheProfileDoesNotKnow) {
    open(12, Balance({8, 2, 2}));
    const QPoint layer{bar().partitionRect(0).center().toPoint().x(), 20};
    EXPECT_TRUE(bar().descriptionAt(layer).endsWith(QStringLiteral("of parameters")));
    Profile profile = *model_.profile();
    profile.memory_unknown = true;
    model_.setProfile(CheckedProfile(profile), model_.scenario());
    QApplication::processEvents();
    EXPECT_TRUE(bar().descriptionAt(layer).endsWith(QStringLiteral("for one micro-batch")))
        << bar().descriptionAt(layer).toStdString();
}

TEST_F(BalanceBarTest, TellsNamesCostsAndWhatIsOverTheLimit) {
    open(12, Balance({8, 2, 2}));
    Scenario tight = model_.scenario();
    tight.options.hardware.memory_limit = model_.result()->simulation.lanes[0].peak_bytes - 1;
    model_.change(tight, QStringLiteral("limit"));
    EXPECT_TRUE(bar().isOverLimit(0));
    EXPECT_FALSE(bar().isOverLimit(2));
    EXPECT_TRUE(bar().partitionFacts(0).last().startsWith(QStringLiteral("▲")));
    const QPoint inFirst = bar().partitionRect(0).center().toPoint();
    EXPECT_TRUE(bar().descriptionAt(inFirst).contains(QStringLiteral("from layer0 to layer7")));
    EXPECT_TRUE(bar().descriptionAt(inFirst).contains(QStringLiteral("above the limit")));
    EXPECT_TRUE(bar().descriptionAt({inFirst.x(), 20}).contains(QStringLiteral("layer3")) ||
                bar().descriptionAt({inFirst.x(), 20}).contains(QStringLiteral("layer4")));
    EXPECT_TRUE(bar().descriptionAt({0, 20}).isEmpty());
    // Marked by a frame and hatching, not only by the fill.
    const QImage image = bar().grab().toImage();
    const QRect rect = bar().partitionRect(0).toRect();
    EXPECT_EQ(image.pixelColor(rect.left() + 2, rect.center().y()), timelineColors(bar().palette()).limit);
}

TEST_F(BalanceBarTest, StaysUsableWithTwoThousandLayers) {
    open(2000, Balance(std::vector<std::int64_t>(8, 250)));
    bar().setFocus(Qt::TabFocusReason);
    QTest::keyClick(&bar(), Qt::Key_Right);
    EXPECT_EQ(balance().layers_per_partition().front(), 251);
    const QPoint from = on(3);
    QTest::mousePress(&bar(), Qt::LeftButton, {}, from);
    QTest::mouseMove(&bar(), from + QPoint(20, 0));
    QTest::mouseRelease(&bar(), Qt::LeftButton, {}, from + QPoint(20, 0));
    EXPECT_GT(balance().layers_per_partition()[3], 255);
    EXPECT_EQ(balance().num_layers(), 2000U);
}

TEST_F(BalanceBarTest, SurvivesOnePartitionAndNoProfile) {
    open(3, Balance({3}));
    bar().setFocus(Qt::TabFocusReason);
    QTest::keyClick(&bar(), Qt::Key_Right);
    QTest::mouseClick(&bar(), Qt::LeftButton, {}, {50, 50});
    EXPECT_EQ(balance(), Balance({3}));
    model_.setProfile(std::nullopt, std::nullopt);
    bar().grab();
    EXPECT_TRUE(bar().descriptionAt({50, 50}).isEmpty());
}
}  // namespace
}  // namespace pipescope
