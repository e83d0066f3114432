#include "gui/window/main_window.h"

#include "gui/console/sql_console.h"
#include "gui/document/document_loader.h"
#include "gui/style/message_bar.h"
#include "gui/style/task_style.h"
#include "gui/tables/task_details.h"
#include "gui/tables/task_table.h"
#include "gui/tables/task_table_model.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_marks.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/marks_panel.h"
#include "gui/window/search_bar.h"
#include "gui/window/shortcut_overlay.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QDialog>
#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QMenuBar>
#include <QMimeData>
#include <QSettings>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QWheelEvent>

#include <fstream>

namespace pipescope {
namespace {
constexpr int kPatience = 20'000;  // ms; a loaded machine may need some

class MainWindowTest : public testing::Test {
protected:
    void SetUp() override {
        window_.resize(1400, 900);
        window_.show();
    }

    void open(const std::string& name, const SampleRun& run = {}) {
        const auto path = temporaryPath(name);
        writeSampleTrace(path, run);
        QSignalSpy loaded(&window_, &MainWindow::loaded);
        window_.open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        settle();
    }

    void settle() {
        QApplication::processEvents();
        QApplication::processEvents();
    }

    TimelineView& measured() { return window_.view(Source::measured); }
    TimelineView& simulated() { return window_.view(Source::simulated); }

    void wheel(TimelineView& view, const QPointF& at, int delta, Qt::KeyboardModifiers modifiers) {
        QWheelEvent event(at, view.viewport()->mapToGlobal(at), {}, {0, delta}, Qt::NoButton, modifiers,
                          Qt::NoScrollPhase, false);
        QApplication::sendEvent(view.viewport(), &event);
    }

    SliceRef slice(Source source, const TaskKey& key) { return *window_.document()->store(source)->find(key); }

    QColor pixel(TimelineView& view, const QPoint& at) { return view.viewport()->grab().toImage().pixelColor(at); }

    MainWindow window_{nullptr};
    const TaskKey task_{1, TaskKind::backward, 1, 2, -1};
    const TaskKey twin_{0, TaskKind::backward, 1, 2, -1};
};

TEST_F(MainWindowTest, ShowsBothTimelinesOnOneAxis) {
    open("axis.sqlite");
    EXPECT_TRUE(measured().isVisible());
    EXPECT_TRUE(simulated().isVisible());
    EXPECT_EQ(measured().lanesRect().left(), simulated().lanesRect().left());
    EXPECT_EQ(measured().lanesRect().width(), simulated().lanesRect().width());
    EXPECT_EQ(measured().lanesRect().width(), window_.memory().lanesRect().width());
    // The simulated step is drawn where the measured one starts.
    const SliceRef first = slice(Source::measured, {window_.step(), TaskKind::forward, 0, 0, -1});
    const SliceRef simulatedFirst = slice(Source::simulated, {0, TaskKind::forward, 0, 0, -1});
    EXPECT_NEAR(measured().rectOf(first).left(), simulated().rectOf(simulatedFirst).left(), 1.0);
}

TEST_F(MainWindowTest, PaintsATaskInItsColourAtItsComputedPlace) {
    open("pixels.sqlite");
    for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) {
        const QRectF bar = measured().rectOf(slice(Source::measured, {window_.step(), kind, 0, 1, -1}));
        const QPoint inside(static_cast<int>(bar.left() + 3), static_cast<int>(bar.top() + 2));
        EXPECT_EQ(pixel(measured(), inside), styleOf(kind).color) << static_cast<int>(kind);
    }
}

TEST_F(MainWindowTest, ShadesTheBubbleBetweenTheLastForwardAndTheFirstBackward) {
    open("bubble.sqlite");
    MarkChoice plain;
    plain.causes = false;
    window_.page()->setChoice(plain);
    const QRectF forward = measured().rectOf(slice(Source::measured, {window_.step(), TaskKind::forward, 0, 3, -1}));
    const QRectF backward = measured().rectOf(slice(Source::measured, {window_.step(), TaskKind::backward, 0, 3, -1}));
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

TEST_F(MainWindowTest, ComparesInOneTimelineByKeyboard) {
    open("modes.sqlite");
    QTest::keyClick(&measured(), Qt::Key_2);
    EXPECT_EQ(window_.page()->choice().mode, CompareMode::overlay);
    EXPECT_FALSE(simulated().isVisible());
    ASSERT_TRUE(measured().marks());
    EXPECT_EQ(measured().marks()->ghosts, window_.document()->simulated);
    QTest::keyClick(&measured(), Qt::Key_3);
    EXPECT_EQ(measured().marks()->differences.size(), window_.document()->simulated->numSlices());
    QTest::keyClick(&measured(), Qt::Key_C);
    EXPECT_FALSE(measured().marks()->critical.empty());
    EXPECT_TRUE(window_.pane(Source::measured).facts().contains(QStringLiteral("critical path")));
    QTest::keyClick(&measured(), Qt::Key_1);
    EXPECT_TRUE(simulated().isVisible());
    EXPECT_TRUE(measured().marks()->differences.empty());
}

TEST_F(MainWindowTest, AlignsTheSelectedTaskWithItsTwin) {
    open("align.sqlite");
    window_.select(Source::measured, slice(Source::measured, task_));
    MarkChoice choice;
    choice.alignment = Alignment::task;
    window_.page()->setChoice(choice);
    const SliceRef twin = slice(Source::simulated, twin_);
    EXPECT_NEAR(measured().rectOf(slice(Source::measured, task_)).left(), simulated().rectOf(twin).left(), 0.01);
    choice.alignment = Alignment::step;
    window_.page()->setChoice(choice);
    // The sample's step begins 1 us before its first task; the simulated one then begins there.
    EXPECT_EQ(simulated().shift(), window_.document()->measured->step(1)->range().start - 1000);
}

TEST_F(MainWindowTest, DrawsArrowsOfTheSelectedTaskInBothTimelines) {
    open("arrows.sqlite");
    window_.select(Source::measured, slice(Source::measured, task_));
    ASSERT_FALSE(measured().marks()->arrows.empty());
    EXPECT_EQ(measured().marks()->arrows.size(), simulated().marks()->arrows.size());
    window_.select(Source::measured, std::nullopt);
    EXPECT_TRUE(measured().marks()->arrows.empty());
}

TEST_F(MainWindowTest, MatchesEveryTaskOfTheStep) {
    open("matching.sqlite");
    ASSERT_TRUE(window_.page()->analysis());
    const TaskMatching& matching = window_.page()->analysis()->matching();
    EXPECT_EQ(matching.pairs.size(), window_.document()->simulated->numSlices());
    EXPECT_TRUE(matching.unmatched.empty());
}

TEST_F(MainWindowTest, KeepsTheTimeUnderThePointerWhileZooming) {
    open("zoom.sqlite");
    const QPointF at(measured().lanesRect().left() + 777, 60);
    const std::int64_t under = measured().timeAtPixel(at.x());
    const double before = window_.axis().window().length;
    for (int i = 0; i < 12; ++i) {
        wheel(measured(), at, 120, Qt::ControlModifier);
        EXPECT_NEAR(measured().pixelAtTime(under), at.x(), 1.0);
        EXPECT_NEAR(simulated().pixelAtTime(under), at.x(), 1.0);
    }
    EXPECT_LT(window_.axis().window().length, before / 10);
}

TEST_F(MainWindowTest, MovesByWheelKeysAndDrag) {
    open("move.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_W);
    QTest::keyClick(&measured(), Qt::Key_W);
    const TimeWindow start = window_.axis().window();
    QTest::keyClick(&measured(), Qt::Key_D);
    EXPECT_GT(window_.axis().window().start, start.start);
    QTest::keyClick(&measured(), Qt::Key_A);
    EXPECT_NEAR(double(window_.axis().window().start), double(start.start), 2);
    wheel(simulated(), {300, 60}, -120, Qt::ShiftModifier);
    EXPECT_GT(window_.axis().window().start, start.start);

    const std::int64_t grabbed = measured().timeAtPixel(600);
    QTest::mousePress(measured().viewport(), Qt::LeftButton, {}, {600, 50});
    QTest::mouseMove(measured().viewport(), {560, 50});
    QTest::mouseMove(measured().viewport(), {500, 50});
    QTest::mouseRelease(measured().viewport(), Qt::LeftButton, {}, {500, 50});
    EXPECT_NEAR(measured().pixelAtTime(grabbed), 500, 1.0);  // the time under the pointer follows it
    EXPECT_FALSE(window_.axis().selection());                // a drag is no click
}

TEST_F(MainWindowTest, ShowsAllAndFitsTheSelectionByKey) {
    open("fit.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Home);
    EXPECT_EQ(window_.axis().window(), windowOf(window_.axis().total()));
    window_.select(Source::measured, slice(Source::measured, task_));
    QTest::keyClick(&measured(), Qt::Key_F);
    const QRectF bar = measured().rectOf(slice(Source::measured, task_));
    EXPECT_GT(bar.width(), measured().lanesRect().width() / 5);
    EXPECT_TRUE(QRectF(measured().lanesRect()).contains(bar.center()));
    QTest::keyClick(&measured(), Qt::Key_Escape);
    EXPECT_FALSE(window_.axis().selection());
    QTest::keyClick(&measured(), Qt::Key_Left, Qt::AltModifier);
    EXPECT_EQ(window_.axis().window(), windowOf(window_.axis().total()));
}

TEST_F(MainWindowTest, MarksTheTwinOfAClickedTask) {
    open("twin.sqlite");
    window_.selectStep(1);
    settle();
    const SliceRef twin = slice(Source::simulated, twin_);
    const QRectF place = simulated().rectOf(twin);
    const QImage before = simulated().viewport()->grab().toImage();
    const QPoint click = measured().rectOf(slice(Source::measured, task_)).center().toPoint();
    QTest::mouseClick(measured().viewport(), Qt::LeftButton, {}, click);
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->slice, slice(Source::measured, task_));
    EXPECT_EQ(window_.axis().selection()->twin, twin);
    const QImage after = simulated().viewport()->grab().toImage();
    int framed = 0;
    for (int x = static_cast<int>(place.left()); x < static_cast<int>(place.right()); ++x) {
        const QPoint above(x, static_cast<int>(place.top()) - 1);
        framed += before.pixel(above) != after.pixel(above) ? 1 : 0;
    }
    EXPECT_GT(framed, place.width() / 3);  // dashes
    // and the details tell both
    const QList<QLabel*> labels = window_.details().findChildren<QLabel*>();
    EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
        return label->text() == QStringLiteral("backward of micro-batch 2 on partition 1");
    }));
}

TEST_F(MainWindowTest, WalksFromTaskToTaskByKey) {
    open("walk.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Period);
    ASSERT_TRUE(window_.axis().selection());
    const SliceRef first = window_.axis().selection()->slice;
    QTest::keyClick(&measured(), Qt::Key_Period);
    EXPECT_EQ(window_.axis().selection()->slice.index, first.index + 1);
    QTest::keyClick(&measured(), Qt::Key_Comma);
    EXPECT_EQ(window_.axis().selection()->slice, first);
    EXPECT_TRUE(measured().accessibleDescription().contains(QStringLiteral("lane 0")));
}

TEST_F(MainWindowTest, MovesTheSimulatedStepToTheStepOfTheSelectedTask) {
    open("steps.sqlite");
    window_.selectStep(2);
    window_.select(Source::measured, slice(Source::measured, task_));
    EXPECT_EQ(window_.step(), 1);
    const SliceRef first = slice(Source::measured, {1, TaskKind::forward, 0, 0, -1});
    const SliceRef simulatedFirst = slice(Source::simulated, {0, TaskKind::forward, 0, 0, -1});
    EXPECT_NEAR(measured().rectOf(first).left(), simulated().rectOf(simulatedFirst).left(), 1.0);
    EXPECT_TRUE(window_.pane(Source::measured).facts().contains(QStringLiteral("step 1")));
}

TEST_F(MainWindowTest, TellsAnErrorInTheBarAndKeepsWhatWasOpen) {
    open("kept.sqlite");
    const auto bad = temporaryPath("bad.sqlite");
    std::ofstream(bad) << "certainly no trace";
    QSignalSpy failed(&window_, &MainWindow::failed);
    window_.open(QString::fromStdString(bad.string()));
    ASSERT_TRUE(failed.wait(kPatience));
    EXPECT_TRUE(window_.messages().isVisible());
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("bad.sqlite")));
    ASSERT_NE(window_.document(), nullptr);
    EXPECT_TRUE(window_.document()->path.endsWith(QStringLiteral("kept.sqlite")));
}

TEST_F(MainWindowTest, ShowsTheMeasuredSideAloneAndWhy) {
    SampleRun run;
    run.profile = false;
    open("alone.sqlite", run);
    EXPECT_TRUE(measured().isVisible());
    EXPECT_FALSE(simulated().isVisible());
    EXPECT_TRUE(window_.page()->messages().isVisible());
}

TEST_F(MainWindowTest, SaysWhatToDoWhileNothingIsOpen) {
    const QList<QLabel*> labels = window_.findChildren<QLabel*>();
    EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
        return label->isVisible() && label->text().contains(QStringLiteral("pipescope run"));
    }));
    EXPECT_EQ(window_.page(), nullptr);
}

TEST_F(MainWindowTest, OpensADroppedFile) {
    const auto path = temporaryPath("dropped.sqlite");
    writeSampleTrace(path);
    QMimeData mime;
    mime.setUrls({QUrl::fromLocalFile(QString::fromStdString(path.string()))});
    QSignalSpy loaded(&window_, &MainWindow::loaded);
    QDragEnterEvent enter({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent drop({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &drop);
    ASSERT_TRUE(loaded.wait(kPatience));
}

TEST_F(MainWindowTest, AlignsTheAxesWhenLanesNeedScrolling) {
    SampleRun run;
    run.partitions = 16;
    run.chunks = 4;
    run.steps = 1;
    window_.resize(900, 560);
    open("scroll.sqlite", run);
    settle();
    EXPECT_TRUE(measured().overflows());
    EXPECT_EQ(measured().lanesRect().width(), simulated().lanesRect().width());
    EXPECT_EQ(measured().lanesRect().width(), window_.memory().lanesRect().width());
    wheel(measured(), {300, 60}, -120, Qt::NoModifier);
    const SliceRef any = slice(Source::measured, {0, TaskKind::forward, 0, 0, -1});
    EXPECT_LT(measured().rectOf(any).top(), measured().lanesRect().top());
    EXPECT_EQ(measured().rectOf(any).top(),
              simulated().rectOf(slice(Source::simulated, {0, TaskKind::forward, 0, 0, -1})).top());
}

TEST_F(MainWindowTest, GivesEachFileATabThatKeepsItsZoomAndSelection) {
    open("one.sqlite");
    window_.select(Source::measured, slice(Source::measured, task_));
    window_.axis().zoom(0.5, 0.1);
    const TimeWindow zoomed = window_.axis().window();
    DocumentPage* const first = window_.page();
    open("two.sqlite");
    EXPECT_EQ(window_.pages().size(), 2);
    EXPECT_NE(window_.page(), first);
    EXPECT_FALSE(window_.axis().selection());
    EXPECT_TRUE(window_.windowTitle().contains(QStringLiteral("two.sqlite")));
    auto* tabs = window_.findChild<QTabWidget*>();
    tabs->setCurrentIndex(0);
    EXPECT_EQ(window_.axis().window(), zoomed);
    const QList<QLabel*> labels = window_.details().findChildren<QLabel*>();
    EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
        return label->text() == QStringLiteral("backward of micro-batch 2 on partition 1");
    }));
    window_.closePage(window_.page());
    window_.closePage(window_.page());
    EXPECT_EQ(window_.page(), nullptr);
    EXPECT_EQ(window_.windowTitle(), QStringLiteral("PipeScope"));
}

TEST_F(MainWindowTest, KeepsZoomStepAndSelectionWhenAFileIsReadAgain) {
    open("again.sqlite");
    window_.selectStep(1);
    window_.select(Source::measured, slice(Source::measured, task_));
    window_.axis().zoom(0.5, 0.2);
    const TimeWindow zoomed = window_.axis().window();
    open("again.sqlite");
    EXPECT_EQ(window_.pages().size(), 1);
    EXPECT_EQ(window_.step(), 1);
    EXPECT_EQ(window_.axis().window(), zoomed);
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->slice, slice(Source::measured, task_));
}

TEST_F(MainWindowTest, GoesFromARowOfAQueryToItsTask) {
    open("query.sqlite");
    SqlConsole& console = window_.console();
    console.setSql(
        QStringLiteral("SELECT id FROM PIPESCOPE_TASK WHERE source = 'measured' AND step = 1 AND kind = 'backward' "
                       "AND partition = 1 AND microBatch = 2"));
    QSignalSpy finished(&console, &SqlConsole::finished);
    console.run();
    ASSERT_TRUE(finished.wait(kPatience));
    QSignalSpy selected(&window_, &MainWindow::selectionChanged);
    Q_EMIT console.table().clicked(console.results().index(0, 0));
    ASSERT_TRUE(selected.wait(kPatience));
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->slice, slice(Source::measured, task_));
    EXPECT_GT(measured().rectOf(slice(Source::measured, task_)).width(), measured().lanesRect().width() / 5);
}

TEST_F(MainWindowTest, GoesFromARowToItsTaskAndBack) {
    open("rows.sqlite");
    QSignalSpy listed(&window_.tasks(), &TaskTable::listed);
    window_.findChild<QDockWidget*>(QStringLiteral("tasks"))->raise();
    ASSERT_TRUE(window_.tasks().model().rowCount() > 0 || listed.wait(kPatience));
    window_.axis().show({0, 1000});
    const int last = window_.tasks().model().rowCount() - 1;
    window_.tasks().table().selectRow(last);
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->slice,
              window_.tasks().model().rows()->sliceAt(static_cast<std::size_t>(last)));
    EXPECT_TRUE(
        measured().lanesRect().contains(measured().rectOf(window_.axis().selection()->slice).center().toPoint()));
    window_.select(Source::measured, slice(Source::measured, task_));
    const auto row = static_cast<std::size_t>(window_.tasks().table().currentIndex().row());
    EXPECT_EQ(window_.tasks().model().rows()->at(row).slice.key, task_);
}

TEST_F(MainWindowTest, FindsTasksAndWalksThroughThem) {
    open("find.sqlite");
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_Slash);
    EXPECT_TRUE(window_.search().isVisible());
    QSignalSpy searched(&window_.search(), &SearchBar::searched);
    QTest::keyClicks(&window_.search().field(), QStringLiteral("backward 2 1"));
    ASSERT_TRUE(searched.wait(kPatience));
    while (searched.wait(300)) {
    }
    EXPECT_TRUE(window_.search().status().contains(QStringLiteral("of 3"))) << window_.search().status().toStdString();
    ASSERT_TRUE(window_.axis().selection());
    const SliceRef first = window_.axis().selection()->slice;
    QTest::keyClick(&window_.search().field(), Qt::Key_Return);
    EXPECT_NE(window_.axis().selection()->slice, first);
    QTest::keyClick(&window_.search().field(), Qt::Key_Return, Qt::ShiftModifier);
    EXPECT_EQ(window_.axis().selection()->slice, first);
    QTest::keyClick(&window_.search().field(), Qt::Key_Escape);
    EXPECT_FALSE(window_.search().isVisible());
}

TEST_F(MainWindowTest, WalksFromTaskToTaskOfAKindByKey) {
    open("kind.sqlite");
    window_.select(Source::measured, slice(Source::measured, task_));
    measured().setFocus();
    QTest::keyClick(&measured(), Qt::Key_N);
    const Slice next = window_.document()->measured->slice(window_.axis().selection()->slice);
    EXPECT_EQ(next.key, (TaskKey{1, TaskKind::backward, 1, 1, -1}));  // the last micro-batch runs backward first
    QTest::keyClick(&measured(), Qt::Key_P);
    EXPECT_EQ(window_.axis().selection()->slice, slice(Source::measured, task_));
}

TEST_F(MainWindowTest, MarksPlacesAndGoesBackToThem) {
    open("marks.sqlite");
    window_.select(Source::measured, slice(Source::measured, task_));
    measured().setFocus();
    window_.axis().setCursor(std::nullopt);  // the pointer may be anywhere
    QTest::keyClick(&measured(), Qt::Key_M);
    ASSERT_EQ(window_.marks().model().rowCount(), 1);
    const std::int64_t at = window_.document()->measured->slice(slice(Source::measured, task_)).start.count();
    EXPECT_EQ(window_.axis().marks().front().time, at);
    // A line across the timeline, in the colour of selections.
    const int x = static_cast<int>(measured().pixelAtTime(at));
    EXPECT_EQ(pixel(measured(), {x, 2}), timelineColors(window_.palette()).selection);
    window_.axis().show({at + 10'000'000, at + 20'000'000});
    QTest::keyClick(&measured(), Qt::Key_BracketLeft);
    EXPECT_LE(window_.axis().window().start, at);
    window_.marks().model().setData(window_.marks().model().index(0, MarksModel::note), QStringLiteral("here"));
    EXPECT_EQ(window_.axis().marks().front().note, QStringLiteral("here"));
    window_.marks().model().remove(0);
    EXPECT_TRUE(window_.axis().marks().empty());
}

TEST_F(MainWindowTest, ListsTheShortcutsThatItsMenusHave) {
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
    // No two entries that act at the same place have the same key.
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

TEST_F(MainWindowTest, TurnsDarkAndLightWhileItIsOpen) {
    open("theme.sqlite");
    const auto choose = [&](const QString& text) {
        for (QAction* action : window_.findChildren<QAction*>()) {
            if (action->text() == text) {
                action->trigger();
            }
        }
        settle();
    };
    choose(QStringLiteral("&Dark"));
    EXPECT_TRUE(isDark(measured().palette()));
    EXPECT_LT(pixel(measured(), {measured().width() - 3, 3}).lightness(), 100);
    choose(QStringLiteral("&Light"));
    EXPECT_FALSE(isDark(measured().palette()));
    EXPECT_GT(pixel(measured(), {measured().width() - 3, 3}).lightness(), 150);
    choose(QStringLiteral("&System"));
}

TEST_F(MainWindowTest, ListsTasksWithoutATwin) {
    open("unmatched.sqlite");
    auto* table = qobject_cast<QTableView*>(window_.findChild<QDockWidget*>(QStringLiteral("unmatched"))->widget());
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->model()->rowCount(), 0);  // each task of the sample has one
    Timeline timeline = sampleTimeline({});
    std::erase_if(timeline.slices, [&](const Slice& each) {
        return each.key == TaskKey{window_.step(), TaskKind::forward, 0, 2, -1};
    });
    auto document = std::make_shared<TraceDocument>(*window_.document());
    document->measured = std::make_shared<const TimelineStore>(timeline);
    window_.setDocument(document);
    ASSERT_EQ(table->model()->rowCount(), 1);
    EXPECT_EQ(table->model()->index(0, 0).data().toString(), QStringLiteral("forward of micro-batch 2 on partition 0"));
    EXPECT_FALSE(table->model()->index(0, 2).data().toString().isEmpty());
    Q_EMIT table->clicked(table->model()->index(0, 0));
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->source, Source::simulated);
}

TEST_F(MainWindowTest, WritesAReportWithAPictureOfTheTimelines) {
    open("reported.sqlite");
    const QString path = QString::fromStdString(temporaryPath("window_report.html").string());
    window_.exportReport(path);
    EXPECT_FALSE(window_.messages().isVisible());
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_TRUE(file.readAll().contains("data:image/png;base64,"));
    window_.exportReport(QStringLiteral("/nowhere/report.html"));
    EXPECT_TRUE(window_.messages().isVisible());
}

TEST(MainWindowSettings, BringsBackTabsZoomStepAndMarks) {
    QSettings settings(QString::fromStdString(temporaryPath("session.ini").string()), QSettings::IniFormat);
    const auto first = temporaryPath("session1.sqlite");
    const auto second = temporaryPath("session2.sqlite");
    writeSampleTrace(first);
    writeSampleTrace(second);
    TimeWindow zoomed;
    {
        MainWindow window(&settings);
        for (const auto& path : {first, second}) {
            QSignalSpy loaded(&window, &MainWindow::loaded);
            window.open(QString::fromStdString(path.string()));
            ASSERT_TRUE(loaded.wait(kPatience));
        }
        window.selectStep(2);
        window.axis().zoom(0.3, 0.25);
        window.page()->addMark();
        zoomed = window.axis().window();
        window.close();
    }
    MainWindow window(&settings);
    QSignalSpy loaded(&window, &MainWindow::loaded);
    window.restoreSession();
    while (loaded.count() < 2) {
        ASSERT_TRUE(loaded.wait(kPatience));
    }
    ASSERT_EQ(window.pages().size(), 2);
    EXPECT_TRUE(window.page()->path().endsWith(QStringLiteral("session2.sqlite")));
    EXPECT_EQ(window.step(), 2);
    EXPECT_NEAR(double(window.axis().window().start), double(zoomed.start), 2);
    EXPECT_NEAR(window.axis().window().length, zoomed.length, 2);
    EXPECT_EQ(window.axis().marks().size(), 1u);
}

TEST(MainWindowSettings, RemembersFilesThatWereOpened) {
    QSettings settings(QString::fromStdString(temporaryPath("viewer.ini").string()), QSettings::IniFormat);
    const auto path = temporaryPath("recent.sqlite");
    writeSampleTrace(path);
    MainWindow window(&settings);
    QSignalSpy loaded(&window, &MainWindow::loaded);
    window.open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_EQ(settings.value(QStringLiteral("files/recent")).toStringList(),
              QStringList{QString::fromStdString(path.string())});
}
}  // namespace
}  // namespace pipescope
