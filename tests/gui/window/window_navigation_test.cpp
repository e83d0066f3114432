#include "gui/style/task_style.h"
#include "gui/timeline/memory_view.h"
#include "gui/window/marks_panel.h"
#include "gui/window/search_bar.h"
#include "gui/window/shortcut_overlay.h"
#include "tests/gui/window/main_window_fixture.h"
#include "trace/store/trace_writer.h"

#include <gtest/gtest.h>

#include <QDialog>
#include <QLineEdit>
#include <QMenuBar>
#include <QSet>
#include <QTest>

namespace pipescope {
namespace {
using WindowNavigation = MainWindowTest;

TEST_F(WindowNavigation, KeepsTheTimeUnderThePointerWhileZooming) {
    open("zoom.sqlite");
    const QPointF at(measured().lanesRect().left() + 777, 60);
    const std::int64_t under = measured().timeAtPixel(at.x());
    const double before = window_.page()->axis().window().length;
    for (int i = 0; i < 12; ++i) {
        wheel(measured(), at, 120, Qt::ControlModifier);
        EXPECT_NEAR(measured().pixelAtTime(under), at.x(), 1.0);
        EXPECT_NEAR(simulated().pixelAtTime(under), at.x(), 1.0);
    }
    EXPECT_LT(window_.page()->axis().window().length, before / 10);
}

TEST_F(WindowNavigation, LeadsTheFocusThroughAllThatIsSeenAndBackByTab) {
    open("tab.sqlite");
    ASSERT_TRUE(QTest::qWaitForWindowActive(&window_, kPatience));
    for (const auto key : {Qt::Key_Tab, Qt::Key_Backtab}) {
        measured().setFocus();
        QSet<const QWidget*> passed;
        const QWidget* back = nullptr;
        for (int i = 0; i < 200 && back != &measured(); ++i) {
            QTest::keyClick(QApplication::focusWidget(), key);
            back = QApplication::focusWidget();
            ASSERT_NE(back, nullptr);
            const QPoint middle = back->mapTo(&window_, back->rect().center());
            EXPECT_TRUE(back->isVisible() && window_.rect().contains(middle)) << back->metaObject()->className();
            passed << back;
        }
        EXPECT_EQ(back, &measured());
        EXPECT_TRUE(passed.contains(&simulated()));
        EXPECT_TRUE(passed.contains(&window_.page()->views().memory().view()));
        EXPECT_GE(passed.size(), 12);
    }
}

TEST_F(WindowNavigation, MovesByWheelKeysAndDrag) {
    open("move.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_W);
    QTest::keyClick(&measured(), Qt::Key_W);
    const TimeWindow start = window_.page()->axis().window();
    QTest::keyClick(&measured(), Qt::Key_D);
    EXPECT_GT(window_.page()->axis().window().start, start.start);
    QTest::keyClick(&measured(), Qt::Key_A);
    EXPECT_NEAR(double(window_.page()->axis().window().start), double(start.start), 2);
    wheel(simulated(), {300, 60}, -120, Qt::ShiftModifier);
    EXPECT_GT(window_.page()->axis().window().start, start.start);

    const std::int64_t grabbed = measured().timeAtPixel(600);
    QTest::mousePress(measured().viewport(), Qt::LeftButton, {}, {600, 50});
    QTest::mouseMove(measured().viewport(), {560, 50});
    QTest::mouseMove(measured().viewport(), {500, 50});
    QTest::mouseRelease(measured().viewport(), Qt::LeftButton, {}, {500, 50});
    EXPECT_NEAR(measured().pixelAtTime(grabbed), 500, 1.0);  // the time under the pointer follows it
    EXPECT_FALSE(window_.page()->axis().selection());        // a drag is no click
}

TEST_F(WindowNavigation, ShowsAllAndFitsTheSelectionByKey) {
    open("fit.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Home);
    EXPECT_EQ(window_.page()->axis().window(), windowOf(window_.page()->axis().total()));
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    QTest::keyClick(&measured(), Qt::Key_F);
    const QRectF bar = measured().rectOf(slice(Source::measured, task_));
    EXPECT_GT(bar.width(), measured().lanesRect().width() / 5);
    EXPECT_TRUE(QRectF(measured().lanesRect()).contains(bar.center()));
    QTest::keyClick(&measured(), Qt::Key_Escape);
    EXPECT_FALSE(window_.page()->axis().selection());
    QTest::keyClick(&measured(), Qt::Key_Left, Qt::AltModifier);
    EXPECT_EQ(window_.page()->axis().window(), windowOf(window_.page()->axis().total()));
}

TEST_F(WindowNavigation, FindsTheTaskOfTheShownStepWhereverItLies) {
    open("find.sqlite");
    for (const std::int32_t step : {2, 0, 1}) {
        window_.page()->model().selectStep(step);
        const StepSpan& span = *window_.files().document()->measured->step(step);
        for (const TimeRange& seen : {span.range(), TimeRange{span.range().end - 10, span.range().end}}) {
            for (const char* text : {"b", "b2", "b2 p1"}) {
                window_.page()->axis().show(seen);
                QSignalSpy searched(&window_.search(), &SearchBar::searched);
                window_.search().start();
                window_.search().field().clear();
                window_.search().field().setText(QString::fromUtf8(text));
                ASSERT_TRUE(searched.wait(kPatience));
                EXPECT_EQ(window_.page()->model().step(), step) << text;
                ASSERT_TRUE(window_.page()->axis().selection()) << text;
            }
            const SliceRef found = window_.page()->axis().selection()->slice;
            EXPECT_EQ(window_.files().document()->measured->slice(found).key,
                      (TaskKey{step, TaskKind::backward, 1, 2, -1}));
        }
    }
}

TEST_F(WindowNavigation, WalksFromTaskToTaskByKey) {
    open("walk.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Period);
    ASSERT_TRUE(window_.page()->axis().selection());
    const SliceRef first = window_.page()->axis().selection()->slice;
    QTest::keyClick(&measured(), Qt::Key_Period);
    EXPECT_EQ(window_.page()->axis().selection()->slice.index, first.index + 1);
    QTest::keyClick(&measured(), Qt::Key_Comma);
    EXPECT_EQ(window_.page()->axis().selection()->slice, first);
    EXPECT_TRUE(measured().accessibleDescription().contains(QStringLiteral("lane 0")));
}

TEST_F(WindowNavigation, WalksFromTaskToTaskOfAKindByKey) {
    open("kind.sqlite");
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_N);
    const Slice next = window_.files().document()->measured->slice(window_.page()->axis().selection()->slice);
    EXPECT_EQ(next.key, (TaskKey{1, TaskKind::backward, 1, 1, -1}));  // the last micro-batch runs backward first
    QTest::keyClick(&measured(), Qt::Key_P);
    EXPECT_EQ(window_.page()->axis().selection()->slice, slice(Source::measured, task_));
}

TEST_F(WindowNavigation, MarksPlacesAndGoesBackToThem) {
    open("marks.sqlite");
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    measured().setFocus();
    window_.page()->axis().setCursor(std::nullopt);  // the pointer may be anywhere
    QTest::keyClick(&measured(), Qt::Key_M);
    ASSERT_EQ(window_.tables().marks().model().rowCount(), 1);
    const std::int64_t at = window_.files().document()->measured->slice(slice(Source::measured, task_)).start.count();
    EXPECT_EQ(window_.page()->axis().marks().front().time, at);
    // A line across the timeline in the selection colour.
    const int x = static_cast<int>(measured().pixelAtTime(at));
    EXPECT_EQ(pixel(measured(), {x, 2}), timelineColors(window_.palette()).selection);
    window_.page()->axis().show({at + 10'000'000, at + 20'000'000});
    QTest::keyClick(&measured(), Qt::Key_BracketLeft);
    EXPECT_LE(window_.page()->axis().window().start, at);
    window_.tables().marks().model().setData(window_.tables().marks().model().index(0, MarksModel::note),
                                             QStringLiteral("here"));
    EXPECT_EQ(window_.page()->axis().marks().front().note, QStringLiteral("here"));
    window_.tables().marks().model().remove(0);
    EXPECT_TRUE(window_.page()->axis().marks().empty());
}

TEST_F(WindowNavigation, FindsTasksAndWalksThroughThem) {
    open("find.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Slash);
    EXPECT_TRUE(window_.search().isVisible());
    QTest::keyClicks(&window_.search().field(), QStringLiteral("backward 2 1"));
    // Every intermediate text may be searched; only the complete one gives three hits.
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.search().status().contains(QStringLiteral("of 3 ")); }, kPatience))
        << window_.search().status().toStdString();
    ASSERT_TRUE(window_.page()->axis().selection());
    const SliceRef first = window_.page()->axis().selection()->slice;
    QTest::keyClick(&window_.search().field(), Qt::Key_Return);
    EXPECT_NE(window_.page()->axis().selection()->slice, first);
    QTest::keyClick(&window_.search().field(), Qt::Key_Return, Qt::ShiftModifier);
    EXPECT_EQ(window_.page()->axis().selection()->slice, first);
    QTest::keyClick(&window_.search().field(), Qt::Key_Escape);
    EXPECT_FALSE(window_.search().isVisible());
}

TEST_F(WindowNavigation, ListsTheShortcutsThatItsMenusHave) {
    const QList<ShortcutLine> lines = shortcutLines(*window_.menuBar());
    QStringList keys;
    for (const ShortcutLine& line : lines) {
        keys << line.keys;
    }
    for (const QAction* action : window_.findChildren<QAction*>()) {
        if (!action->shortcut().isEmpty() && action->menu() == nullptr) {
            const QString own = action->shortcut().toString(QKeySequence::NativeText);
            EXPECT_TRUE(std::any_of(keys.begin(), keys.end(), [&](const QString& k) { return k.contains(own); }))
                << action->text().toStdString();
        }
    }
    // No two entries that act in the same place share a key.
    QSet<QString> seen;
    for (const QString& each : keys.mid(0, keys.size() - 6)) {
        for (const QString& key : each.split(QStringLiteral(", "))) {
            EXPECT_FALSE(seen.contains(key)) << key.toStdString();
            seen.insert(key);
        }
    }
    for (QAction* action : window_.findChildren<QAction*>()) {
        if (action->shortcut() == QKeySequence(Qt::Key_F1)) {
            action->trigger();
        }
    }
    auto* dialog = window_.findChild<QDialog*>(QStringLiteral("shortcuts"));
    ASSERT_NE(dialog, nullptr);
    EXPECT_TRUE(dialog->isVisible());
}

TEST_F(WindowNavigation, FindsRangesByTheirText) {
    const auto path = temporaryPath("ranges.sqlite");
    {
        TraceWriter writer(path, IfExists::replace);
        writer.set_lanes({{"lane 0", "cpu"}});
        writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{1'000}, Nanoseconds{900'000}, 0},
                        Source::measured);
        for (const auto& [text, start] :
             {std::pair{"read a batch", 2'000}, {"augment", 40'000}, {"read a batch", 80'000}}) {
            NvtxRecord range;
            range.text = text;
            range.start = start;
            range.end = start + 10'000;
            range.global_tid = 9;
            writer.add_range(range);
        }
        writer.close();
    }
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Slash);
    QTest::keyClicks(&window_.search().field(), QStringLiteral("A Batch"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.search().status().contains(QStringLiteral("of 2 ")); }, kPatience))
        << window_.search().status().toStdString();
    EXPECT_TRUE(window_.search().status().contains(QStringLiteral("read a batch")));
    const auto inView = [&](std::int64_t time) {
        return measured().pixelAtTime(time) >= measured().lanesRect().left() &&
               measured().pixelAtTime(time) <= measured().lanesRect().right();
    };
    QSet<std::int64_t> found;
    for (int hit = 0; hit < 2; ++hit) {
        ASSERT_TRUE(window_.page()->axis().cursor());
        found.insert(*window_.page()->axis().cursor());
        EXPECT_TRUE(inView(*window_.page()->axis().cursor()) && inView(*window_.page()->axis().cursor() + 10'000));
        QTest::keyClick(&window_.search().field(), Qt::Key_Return);
    }
    EXPECT_EQ(found, (QSet<std::int64_t>{2'000, 80'000}));
}
}  // namespace
}  // namespace pipescope
