#include "gui/console/sql_console.h"
#include "gui/style/number_format.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_export.h"
#include "gui/tables/table_models.h"
#include "gui/tables/task_table.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/step_box.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QComboBox>
#include <QDockWidget>
#include <QSet>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <QTreeWidget>

namespace pipescope {
namespace {
class WindowTables : public MainWindowTest {
protected:
    /// Raises a panel and returns its table.
    QTableView& panel(const char* name) {
        auto* dock = window_.findChild<QDockWidget*>(QString::fromLatin1(name));
        dock->show();
        dock->raise();
        settle();
        return *dock->findChild<QTableView*>();
    }
    void click(QTableView& table, int row) {
        settle();
        const QPoint at = table.visualRect(table.model()->index(row, 0)).center();
        ASSERT_TRUE(table.viewport()->rect().contains(at));
        QTest::mouseClick(table.viewport(), Qt::LeftButton, {}, at);
    }

    /// Total ns of forwards in the Statistics panel.
    std::int64_t countedForward() {
        const StatisticsModel& rows = window_.tables().statistics().model();
        std::int64_t total = 0;
        for (int k = 0; k < rows.rowCount(); ++k) {
            const bool ofOneLane = !rows.index(k, 0).data(Qt::FontRole).isValid();  // those of all lanes are bold
            if (ofOneLane && rows.index(k, 0).data(kExportRole).toString() == QStringLiteral("forward")) {
                total += rows.index(k, 3).data(kExportRole).toLongLong();
            }
        }
        return total;
    }
};

TEST_F(WindowTables, HidesColumnsOfATimelineThatTheFileLacks) {
    const auto path = temporaryPath("one_timeline.sqlite");
    writeSimulatedTrace(path);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    settle();
    const auto& inspector = *window_.tables().selection().findChild<QTreeWidget*>();
    const auto hides = [&](bool both) {
        for (int column = 1; column <= 6; ++column) {
            const bool isMeasured = column % 2 == 1;
            EXPECT_EQ(panel("lanes").isColumnHidden(column), isMeasured && !both) << column;
        }
        EXPECT_EQ(inspector.isColumnHidden(1), !both);
        EXPECT_FALSE(inspector.isColumnHidden(2));
        for (const auto* button : window_.page()->findChildren<QToolButton*>()) {
            if (button->toolTip().startsWith(QStringLiteral("Overlay"))) {
                EXPECT_EQ(button->isVisible(), both) << "there is nothing to compare";
            }
        }
    };
    hides(false);
    open("two_timelines.sqlite");
    hides(true);
}

TEST_F(WindowTables, GoesFromARowOfAQueryToItsTask) {
    open("query.sqlite");
    SqlConsole& console = window_.tables().console();
    console.setSql(
        QStringLiteral("SELECT id FROM PIPESCOPE_TASK WHERE source = 'measured' AND step = 1 AND kind = 'backward' "
                       "AND partition = 1 AND microBatch = 2"));
    QSignalSpy finished(&console, &SqlConsole::finished);
    console.run();
    ASSERT_TRUE(finished.wait(kPatience));
    QSignalSpy selected(&window_.files(), &FileTabs::selectionChanged);
    Q_EMIT console.table().clicked(console.table().model()->index(0, 0));
    ASSERT_TRUE(selected.wait(kPatience));
    ASSERT_TRUE(window_.page()->axis().selection());
    EXPECT_EQ(window_.page()->axis().selection()->slice, slice(Source::measured, task_));
    EXPECT_GT(measured().rectOf(slice(Source::measured, task_)).width(), measured().lanesRect().width() / 5);
}

TEST_F(WindowTables, GoesFromARowToItsTaskAndBack) {
    open("rows.sqlite");
    QSignalSpy listed(&window_.tables().tasks(), &TaskTable::listed);
    window_.findChild<QDockWidget*>(QStringLiteral("tasks"))->raise();
    ASSERT_TRUE(window_.tables().tasks().model().rowCount() > 0 || listed.wait(kPatience));
    window_.page()->axis().show({0, 1000});
    const int last = window_.tables().tasks().model().rowCount() - 1;
    window_.tables().tasks().table().selectRow(last);
    ASSERT_TRUE(window_.page()->axis().selection());
    EXPECT_EQ(window_.page()->axis().selection()->slice,
              window_.tables().tasks().model().rows()->sliceAt(static_cast<std::size_t>(last)));
    EXPECT_TRUE(measured().lanesRect().contains(
        measured().rectOf(window_.page()->axis().selection()->slice).center().toPoint()));
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    const auto row = static_cast<std::size_t>(window_.tables().tasks().table().currentIndex().row());
    EXPECT_EQ(window_.tables().tasks().model().rows()->at(row).slice.key, task_);
}

TEST_F(WindowTables, LeadsFromALaneToWhatItDidInTheStep) {
    open("lanes.sqlite");
    window_.page()->model().selectStep(1);
    window_.page()->axis().showAll();
    QTableView& table = panel("lanes");
    click(table, 1);
    ASSERT_TRUE(window_.page()->axis().selection());
    const Slice first = window_.files().document()->measured->slice(window_.page()->axis().selection()->slice);
    EXPECT_EQ(first.key, (TaskKey{1, TaskKind::forward, 1, 0, -1}));
    const QRectF last = measured().rectOf(slice(Source::measured, {1, TaskKind::backward, 1, 0, -1}));
    const QRect lanes = measured().lanesRect();
    EXPECT_NEAR(measured().rectOf(window_.page()->axis().selection()->slice).left(),
                lanes.left() + lanes.width() / 52.0, 2);
    EXPECT_NEAR(last.right(), lanes.left() + lanes.width() * 51 / 52.0, 2);
}

TEST_F(WindowTables, LeadsFromAStatisticToItsLongestTask) {
    open("statistics.sqlite");
    QSignalSpy counted(&window_.tables().statistics(), &StatisticsPanel::counted);
    window_.findChild<QDockWidget*>(QStringLiteral("statistics"))->raise();
    window_.tables().statistics().ranges().setCurrentIndex(2);  // the whole trace
    ASSERT_TRUE(counted.wait(kPatience));
    QTableView& table = window_.tables().statistics().table();
    ASSERT_EQ(table.model()->index(0, 0).data().toString(), QStringLiteral("forward"));
    click(table, 0);
    ASSERT_TRUE(window_.page()->axis().selection());
    const SliceRef selected = window_.page()->axis().selection()->slice;
    const TimelineStore& store = *window_.files().document()->measured;
    EXPECT_EQ(store.slice(selected).key.kind, TaskKind::forward);
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        for (std::uint32_t i = 0; i < store.rows()[row].start.size(); ++i) {
            const Slice each = store.slice({row, i});
            EXPECT_TRUE(each.key.kind != TaskKind::forward || each.duration() <= store.slice(selected).duration());
        }
    }
    EXPECT_TRUE(measured().lanesRect().contains(measured().rectOf(selected).center().toPoint()));
}

TEST_F(WindowTables, LeadsFromADifferenceToItsTask) {
    open("differences.sqlite");
    QTableView& table = panel("differences");
    ASSERT_GT(table.model()->rowCount(), 2);
    window_.page()->axis().showAll();
    click(table, 2);
    ASSERT_TRUE(window_.page()->axis().selection());
    const SliceRef selected = window_.page()->axis().selection()->slice;
    const TaskKey key = window_.files().document()->measured->slice(selected).key;
    EXPECT_EQ(key, window_.files().document()->comparison->worst.at(2).task);
    EXPECT_GT(measured().rectOf(selected).width(), measured().lanesRect().width() / 5);
}

TEST_F(WindowTables, LeadsFromAMarkToItsPlace) {
    open("marks.sqlite");
    const std::int64_t place = window_.files().document()->measured->range().end - 1000;
    window_.page()->axis().setMarks(
        {{window_.files().document()->measured->range().start, {}}, {place, QStringLiteral("end")}});
    window_.page()->axis().show({0, 1'000'000});
    QTableView& table = panel("marks");
    ASSERT_EQ(table.model()->rowCount(), 2);
    click(table, 1);
    EXPECT_EQ(window_.page()->axis().cursor(), place);
    const double x = measured().pixelAtTime(place);
    EXPECT_GT(x, measured().lanesRect().left());
    EXPECT_LT(x, measured().lanesRect().right());
}

TEST_F(WindowTables, FollowTheStepThatIsChosenInTheBox) {
    open("steps.sqlite");
    StepBox& choice = window_.page()->stepBox();
    ASSERT_EQ(choice.maximum(), 2);
    window_.tables().statistics().ranges().setCurrentIndex(
        window_.tables().statistics().ranges().findText(QStringLiteral("step"), Qt::MatchContains));
    window_.findChild<QDockWidget*>(QStringLiteral("statistics"))->raise();
    auto* lanes = window_.findChild<QDockWidget*>(QStringLiteral("lanes"))->findChild<QTableView*>();
    QSet<QString> headlines;
    QSet<QString> busy;
    QSet<std::int32_t> passed;
    for (const QString& number : {QStringLiteral("0"), QStringLiteral("1"), QStringLiteral("2")}) {
        choice.setFocus();
        choice.selectAll();
        QTest::keyClicks(&choice, number);
        QTest::keyClick(&choice, Qt::Key_Return);
        const std::int32_t step = number.toInt();
        SCOPED_TRACE(choice.text().toStdString());
        passed.insert(step);
        ASSERT_EQ(window_.page()->model().step(), step);
        const StepStatistics& of = window_.files().document()->measured->step(step)->statistics;
        // The box, the timelines and the line above them refer to this step.
        EXPECT_TRUE(choice.text().contains(formatDuration(of.step_time().count())));
        EXPECT_EQ(window_.page()->axis().origin(), window_.files().document()->measured->step(step)->range().start);
        EXPECT_TRUE(headlineOf(window_, Source::measured).contains(formatDuration(of.step_time().count())));
        EXPECT_TRUE(headlineOf(window_, Source::measured).contains(formatShare(of.bubble_fraction)));
        const Slice simulated = window_.files().document()->simulated->slice(slice(Source::simulated, twin_));
        EXPECT_NEAR(this->simulated().rectOf(slice(Source::simulated, twin_)).left(),
                    this->simulated().pixelAtTime(simulated.start.count() + this->simulated().shift()), 1);
        // So do the table of lanes and the statistics.
        const std::vector<LaneFacts> facts = laneFacts(*window_.files().document(), step);
        ASSERT_EQ(lanes->model()->rowCount(), static_cast<int>(facts.size()));
        QString row;
        for (int column = 0; column < lanes->model()->columnCount(); ++column) {
            row += lanes->model()->index(1, column).data().toString() + QLatin1Char(' ');
        }
        busy.insert(row);
        headlines.insert(headlineOf(window_, Source::measured));
        std::int64_t forward = 0;
        for (const Slice& each : sampleTimeline({}).slices) {
            const bool counts = each.key.step == step && each.key.kind == TaskKind::forward;
            forward += counts ? each.duration().count() : 0;
        }
        EXPECT_TRUE(QTest::qWaitFor([&] { return countedForward() == forward; }, kPatience))
            << "step " << step << ": " << countedForward() << " instead of " << forward;
    }
    EXPECT_EQ(passed, (QSet<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(headlines.size(), 3);
    EXPECT_EQ(busy.size(), 3);
}

TEST_F(WindowTables, ListsTasksWithoutATwin) {
    open("unmatched.sqlite");
    auto* table = window_.findChild<QDockWidget*>(QStringLiteral("unmatched"))->findChild<QTableView*>();
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->model()->rowCount(), 0);  // each task of the sample has one
    Timeline timeline = sampleTimeline({});
    std::erase_if(timeline.slices, [&](const Slice& each) {
        return each.key == TaskKey{window_.page()->model().step(), TaskKind::forward, 0, 2, -1};
    });
    auto document = std::make_shared<TraceDocument>(*window_.files().document());
    document->measured = std::make_shared<const TimelineStore>(timeline);
    window_.files().setDocument(document);
    ASSERT_EQ(table->model()->rowCount(), 1);
    EXPECT_EQ(table->model()->index(0, 0).data().toString(), QStringLiteral("forward of micro-batch 2 on partition 0"));
    EXPECT_FALSE(table->model()->index(0, 2).data().toString().isEmpty());
    Q_EMIT table->clicked(table->model()->index(0, 0));
    ASSERT_TRUE(window_.page()->axis().selection());
    EXPECT_EQ(window_.page()->axis().selection()->source, Source::simulated);
}

TEST_F(WindowTables, PutTitlesAboveTheTextOfTheirColumns) {
    open("titles.sqlite");
    for (const char* name : {"lanes", "differences", "unmatched", "marks", "tasks"}) {
        const auto* table = window_.findChild<QDockWidget*>(QString::fromLatin1(name))->findChild<QTableView*>();
        for (int column = 0; column < table->model()->columnCount(); ++column) {
            EXPECT_TRUE(table->model()->headerData(column, Qt::Horizontal, Qt::TextAlignmentRole).isValid())
                << name << ", column " << column << ": a title without one is centred";
        }
    }
}
}  // namespace
}  // namespace pipescope
