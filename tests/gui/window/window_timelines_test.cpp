#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/message_bar.h"
#include "gui/style/task_style.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/task_details.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_marks.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/answer_bar.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QCheckBox>
#include <QLabel>
#include <QScrollBar>
#include <QTest>

namespace pipescope {
namespace {
using WindowTimelines = MainWindowTest;

TEST_F(WindowTimelines, ShowsBothTimelinesOnOneAxis) {
    open("axis.sqlite");
    EXPECT_TRUE(measured().isVisible());
    EXPECT_TRUE(simulated().isVisible());
    EXPECT_EQ(measured().lanesRect().left(), simulated().lanesRect().left());
    EXPECT_EQ(measured().lanesRect().width(), simulated().lanesRect().width());
    EXPECT_EQ(measured().lanesRect().width(), window_.page()->views().memory().view().lanesRect().width());
    // The simulated step is drawn at the start of the measured one.
    const SliceRef first = slice(Source::measured, {window_.page()->model().step(), TaskKind::forward, 0, 0, -1});
    const SliceRef simulatedFirst = slice(Source::simulated, {0, TaskKind::forward, 0, 0, -1});
    EXPECT_NEAR(measured().rectOf(first).left(), simulated().rectOf(simulatedFirst).left(), 1.0);
}

TEST_F(WindowTimelines, PaintsATaskInItsColourAtItsComputedPlace) {
    open("pixels.sqlite");
    for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) {
        const QRectF bar = measured().rectOf(slice(Source::measured, {window_.page()->model().step(), kind, 0, 1, -1}));
        const QPoint inside(static_cast<int>(bar.left() + 3), static_cast<int>(bar.top() + 2));
        EXPECT_EQ(pixel(measured(), inside), styleOf(kind).color) << static_cast<int>(kind);
    }
}

TEST_F(WindowTimelines, ShadesTheBubbleBetweenTheLastForwardAndTheFirstBackward) {
    open("bubble.sqlite");
    MarkChoice plain;
    plain.causes = false;
    window_.page()->model().setChoice(plain);
    const QRectF forward =
        measured().rectOf(slice(Source::measured, {window_.page()->model().step(), TaskKind::forward, 0, 3, -1}));
    const QRectF backward =
        measured().rectOf(slice(Source::measured, {window_.page()->model().step(), TaskKind::backward, 0, 3, -1}));
    const QPoint middle(static_cast<int>((forward.right() + backward.left()) / 2), static_cast<int>(forward.top()));
    const TimelineColors colors = timelineColors(window_.palette());
    int bubble = 0;
    const QImage image = measured().viewport()->grab().toImage();
    for (int x = -8; x < 8; ++x) {
        for (int y = 2; y < 10; ++y) {
            const QColor color = image.pixelColor(middle + QPoint(x, y));
            EXPECT_TRUE(color == colors.bubble || color == colors.bubbleDot);
            bubble += color == colors.bubble ? 1 : 0;
        }
    }
    EXPECT_GT(bubble, 100);
}

std::shared_ptr<const TraceDocument> withKernels(const TraceDocument& document) {
    KernelStoreBuilder kernels(document.measured->lanes());
    for (std::uint32_t row = 0; row < document.measured->rows().size(); ++row) {
        const Slice slice = document.measured->slice({row, 0});
        kernels.add({"gemm", slice.key, slice.lane, slice.start.count(), slice.end.count(), 0});
    }
    auto changed = std::make_shared<TraceDocument>(document);
    changed->kernels = std::make_shared<const KernelStore>(kernels.finish());
    return changed;
}

TEST_F(WindowTimelines, ScrollTogetherLaneByLaneOrInProportionWhereKernelsMakeOneOfThemHigher) {
    SampleRun run;
    run.partitions = 24;
    open("scroll.sqlite", run);
    LaneArrangement high;
    high.rowHeight = 30;
    window_.page()->model().setArrangement(high);
    QScrollBar& upper = *measured().verticalScrollBar();
    QScrollBar& lower = *simulated().verticalScrollBar();
    ASSERT_GT(std::min(upper.maximum(), lower.maximum()), 40);
    upper.setValue(17);
    EXPECT_EQ(lower.value(), 17);
    lower.setValue(31);
    EXPECT_EQ(upper.value(), 31);

    window_.files().setDocument(withKernels(*window_.files().document()));
    settle();
    ASSERT_GT(upper.maximum(), lower.maximum() + 40);
    for (const double part : {0.0, 0.25, 0.5, 1.0}) {
        upper.setValue(static_cast<int>(part * upper.maximum()));
        EXPECT_NEAR(lower.value(), part * lower.maximum(), 1.0) << part;
        lower.setValue(static_cast<int>((1 - part) * lower.maximum()));
        EXPECT_NEAR(upper.value(), (1 - part) * upper.maximum(), 1.0 * upper.maximum() / lower.maximum() + 1) << part;
    }
}

TEST_F(WindowTimelines, ComparesInOneTimelineByKeyboard) {
    open("modes.sqlite");
    QTest::keyClick(&measured(), Qt::Key_2);
    EXPECT_EQ(window_.page()->model().choice().mode, CompareMode::overlay);
    EXPECT_FALSE(simulated().isVisible());
    ASSERT_TRUE(measured().marks());
    EXPECT_EQ(measured().marks()->ghosts, window_.files().document()->simulated);
    QTest::keyClick(&measured(), Qt::Key_3);
    EXPECT_EQ(measured().marks()->differences.size(), window_.files().document()->simulated->numSlices());
    QTest::keyClick(&measured(), Qt::Key_C);
    EXPECT_FALSE(measured().marks()->critical.empty());
    EXPECT_TRUE(headlineOf(window_, Source::measured).contains(QStringLiteral("critical path")));
    QTest::keyClick(&measured(), Qt::Key_1);
    EXPECT_TRUE(simulated().isVisible());
    EXPECT_TRUE(measured().marks()->differences.empty());
}

TEST_F(WindowTimelines, MovesTheCursorByKeyAndTellsItsTimeOnBothRulers) {
    open("cursor.sqlite");
    QTest::keyClick(&measured(), Qt::Key_Right, Qt::ControlModifier);
    ASSERT_TRUE(window_.page()->axis().cursor());
    const std::int64_t first = *window_.page()->axis().cursor();
    EXPECT_FALSE(measured().cursorPlate().isEmpty());
    EXPECT_EQ(measured().cursorText(), simulated().cursorText());
    EXPECT_EQ(measured().cursorPlate().left(), simulated().cursorPlate().left());
    QTest::keyClick(&measured(), Qt::Key_Right, Qt::ControlModifier);
    EXPECT_GT(*window_.page()->axis().cursor(), first);
    QTest::keyClick(&measured(), Qt::Key_Left, Qt::ControlModifier);
    EXPECT_NEAR(static_cast<double>(*window_.page()->axis().cursor()), static_cast<double>(first), 2);
}

TEST_F(WindowTimelines, NamesNoSimulatedMemoryWhereThereIsNone) {
    const auto header = [this] { return window_.page()->views().memory().findChild<ElidedLabel*>()->text(); };
    open("both.sqlite");
    EXPECT_TRUE(
        header().startsWith(QStringLiteral("area: measured, line: simulated, ▼ peak (measured: of the whole run)")))
        << header().toStdString();
    SampleRun run;
    run.profile = false;
    open("measured_only.sqlite", run);
    ASSERT_TRUE(window_.page()->document()->simulatedMemory.empty());
    EXPECT_TRUE(header().startsWith(QStringLiteral("area: measured, ▼ peak of the whole run")))
        << header().toStdString();
}

TEST_F(WindowTimelines, ListsWhatMemoryConsistsOfWhileItIsStacked) {
    open("composition.sqlite");
    QCheckBox* box = nullptr;
    for (QCheckBox* each : window_.page()->findChildren<QCheckBox*>()) {
        box = each->text() == QStringLiteral("C&omposition") ? each : box;
    }
    Legend* legend = nullptr;
    for (Legend* each : window_.page()->findChildren<Legend*>()) {
        legend = each->accessibleDescription().contains(nameOf(MemoryCategory::saved)) ? each : legend;
    }
    ASSERT_TRUE(box != nullptr && legend != nullptr);
    EXPECT_FALSE(legend->isVisible());
    QTest::mouseClick(box, Qt::LeftButton, {}, QPoint(8, box->height() / 2));
    EXPECT_TRUE(window_.page()->views().memory().view().stacked());
    EXPECT_TRUE(legend->isVisible());
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        EXPECT_TRUE(legend->accessibleDescription().contains(nameOf(static_cast<MemoryCategory>(k)))) << k;
    }
}

TEST_F(WindowTimelines, AlignsTheSelectedTaskWithItsTwin) {
    open("align.sqlite");
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    MarkChoice choice;
    choice.alignment = Alignment::task;
    window_.page()->model().setChoice(choice);
    const SliceRef twin = slice(Source::simulated, twin_);
    EXPECT_NEAR(measured().rectOf(slice(Source::measured, task_)).left(), simulated().rectOf(twin).left(), 0.01);
    choice.alignment = Alignment::step;
    window_.page()->model().setChoice(choice);
    // The sample's step starts 1 us before its first task; the simulated one then starts there.
    EXPECT_EQ(simulated().shift(), window_.files().document()->measured->step(1)->range().start - 1000);
}

TEST_F(WindowTimelines, DrawsArrowsOfTheSelectedTaskInBothTimelines) {
    open("arrows.sqlite");
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    ASSERT_FALSE(measured().marks()->arrows.empty());
    EXPECT_EQ(measured().marks()->arrows.size(), simulated().marks()->arrows.size());
    window_.page()->model().select(Source::measured, std::nullopt);
    EXPECT_TRUE(measured().marks()->arrows.empty());
}

TEST_F(WindowTimelines, MatchesEveryTaskOfTheStep) {
    open("matching.sqlite");
    ASSERT_TRUE(window_.page()->model().analysis());
    const TaskMatching& matching = window_.page()->model().analysis()->matching();
    EXPECT_EQ(matching.pairs.size(), window_.files().document()->simulated->numSlices());
    EXPECT_TRUE(matching.unmatched.empty());
}

TEST_F(WindowTimelines, MarksTheTwinOfAClickedTask) {
    open("twin.sqlite");
    window_.page()->model().selectStep(1);
    settle();
    const SliceRef twin = slice(Source::simulated, twin_);
    const QRectF place = simulated().rectOf(twin);
    const QImage before = simulated().viewport()->grab().toImage();
    const QPoint click = measured().rectOf(slice(Source::measured, task_)).center().toPoint();
    QTest::mouseClick(measured().viewport(), Qt::LeftButton, {}, click);
    ASSERT_TRUE(window_.page()->axis().selection());
    EXPECT_EQ(window_.page()->axis().selection()->slice, slice(Source::measured, task_));
    EXPECT_EQ(window_.page()->axis().selection()->twin, twin);
    const QImage after = simulated().viewport()->grab().toImage();
    int framed = 0;
    for (int x = static_cast<int>(place.left()); x < static_cast<int>(place.right()); ++x) {
        const QPoint above(x, static_cast<int>(place.top()) - 1);
        framed += before.pixel(above) != after.pixel(above) ? 1 : 0;
    }
    EXPECT_GT(framed, place.width() / 3);  // dashes
    // and the details describe both
    EXPECT_EQ(window_.tables().selection().facts().title, QStringLiteral("backward of micro-batch 2 on partition 1"));
}

TEST_F(WindowTimelines, MovesTheSimulatedStepToTheStepOfTheSelectedTask) {
    open("steps.sqlite");
    window_.page()->model().selectStep(2);
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    EXPECT_EQ(window_.page()->model().step(), 1);
    const SliceRef first = slice(Source::measured, {1, TaskKind::forward, 0, 0, -1});
    const SliceRef simulatedFirst = slice(Source::simulated, {0, TaskKind::forward, 0, 0, -1});
    EXPECT_NEAR(measured().rectOf(first).left(), simulated().rectOf(simulatedFirst).left(), 1.0);
    EXPECT_TRUE(headlineOf(window_, Source::measured).contains(QStringLiteral("step 1")));
}

TEST_F(WindowTimelines, AlignsTheAxesWhenLanesNeedScrolling) {
    SampleRun run;
    run.partitions = 16;
    run.chunks = 4;
    run.steps = 1;
    window_.resize(900, 860);
    open("scroll.sqlite", run);
    LaneArrangement high;
    high.rowHeight = 30;
    window_.page()->model().setArrangement(high);
    settle();
    EXPECT_TRUE(measured().overflows());
    EXPECT_EQ(measured().lanesRect().width(), simulated().lanesRect().width());
    EXPECT_EQ(measured().lanesRect().width(), window_.page()->views().memory().view().lanesRect().width());
    wheel(measured(), {300, 60}, -120, Qt::NoModifier);
    const SliceRef any = slice(Source::measured, {0, TaskKind::forward, 0, 0, -1});
    EXPECT_LT(measured().rectOf(any).top(), measured().lanesRect().top());
    EXPECT_EQ(measured().rectOf(any).top(),
              simulated().rectOf(slice(Source::simulated, {0, TaskKind::forward, 0, 0, -1})).top());
}

TEST_F(WindowTimelines, ShowsTheMeasuredSideAloneAndWhy) {
    SampleRun run;
    run.profile = false;
    open("alone.sqlite", run);
    EXPECT_TRUE(measured().isVisible());
    EXPECT_FALSE(simulated().isVisible());
    EXPECT_TRUE(window_.page()->answer().messagesButton().isVisible());
}

TEST_F(WindowTimelines, TurnsDarkAndLightWhileItIsOpen) {
    open("theme.sqlite");
    const auto choose = [&](const QString& text) {
        for (QAction* action : window_.findChildren<QAction*>()) {
            if (action->text() == text) {
                action->trigger();
            }
        }
        settle();
    };
    Legend& legend = *window_.page()->findChild<Legend*>();
    const auto swatchesOn = [&](const QColor& ground) {
        const QImage image = legend.grab().toImage();
        int found = 0;
        for (int y = 0; y < image.height(); ++y) {
            for (int x = 0; x < image.width(); ++x) {
                found += image.pixelColor(x, y) == ground ? 1 : 0;
            }
        }
        return found;
    };
    choose(QStringLiteral("&Light"));
    const QColor lightBubble = timelineColors(measured().palette()).bubble;
    EXPECT_GT(swatchesOn(lightBubble), 100);
    choose(QStringLiteral("&Dark"));
    EXPECT_LT(swatchesOn(lightBubble), 50);  // an edge of a letter may have it
    EXPECT_GT(swatchesOn(timelineColors(measured().palette()).bubble), 100);
    EXPECT_TRUE(isDark(measured().palette()));
    EXPECT_LT(pixel(measured(), {measured().width() - 3, 3}).lightness(), 100);
    choose(QStringLiteral("&Light"));
    EXPECT_FALSE(isDark(measured().palette()));
    EXPECT_GT(pixel(measured(), {measured().width() - 3, 3}).lightness(), 150);
    choose(QStringLiteral("&System"));
}
}  // namespace
}  // namespace pipescope
