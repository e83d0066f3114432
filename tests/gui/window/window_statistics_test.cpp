#include "gui/tables/call_tree_model.h"
#include "gui/tables/length_chart.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_models.h"
#include "gui/tables/task_table.h"
#include "gui/window/search_bar.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QComboBox>
#include <QDockWidget>
#include <QLineEdit>
#include <QTableView>
#include <QTreeView>

#include <fstream>

namespace pipescope {
namespace {
/// Three calls of a thread, the middle one within the first, and kernels on a stream.
constexpr const char* kThreads = R"json({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 17, "tid": 18, "ts": 100, "dur": 100},
{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 17, "tid": 18, "ts": 120, "dur": 60},
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 17, "tid": 18, "ts": 300, "dur": 10},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 300, "dur": 50},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 400, "dur": 70},
{"ph": "X", "cat": "kernel", "name": "gemm_nt", "pid": 0, "tid": 7, "ts": 500, "dur": 50}]})json";

class WindowStatistics : public MainWindowTest {
protected:
    StatisticsPanel& panel() { return window_.tables().statistics(); }
    void front() {
        auto* dock = window_.findChild<QDockWidget*>(QStringLiteral("statistics"));
        dock->show();
        dock->raise();
        settle();
    }
    void openThreads() {
        const auto path = temporaryPath("statistics.json");
        std::ofstream(path) << kThreads;
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        settle();
    }
    /// Waits until the first row has this name.
    bool shows(const QString& name) {
        return QTest::qWaitFor(
            [&] { return panel().model().index(0, StatisticsModel::name).data().toString() == name; }, kPatience);
    }
    bool hasBars() {
        return QTest::qWaitFor([&] { return !panel().chart().bins().empty(); }, kPatience);
    }
    void clickBar(std::size_t bin) {
        const QRectF bar = panel().chart().barOf(bin);
        QTest::mouseClick(&panel().chart(), Qt::LeftButton, {}, bar.center().toPoint());
    }
    /// A bar with items, and their number.
    std::size_t someBar() {
        const std::vector<LengthBin>& bins = panel().chart().bins();
        for (std::size_t k = 0; k < bins.size(); ++k) {
            if (bins[k].count > 0) {
                return k;
            }
        }
        ADD_FAILURE() << "no bar";
        return 0;
    }
};

TEST_F(WindowStatistics, ABarOfTheHistogramSelectsItsTasks) {
    open("histogram.sqlite", {.steps = 5, .cv = 0.2});
    front();
    ASSERT_TRUE(shows(QStringLiteral("forward")));
    ASSERT_TRUE(hasBars());
    std::int64_t all = 0;
    for (const LengthBin& bin : panel().chart().bins()) {
        all += bin.count;
    }
    EXPECT_EQ(all, 5 * 2 * 4) << "of all steps, whatever is visible";
    const std::size_t bar = someBar();
    const LengthBin lengths = panel().chart().bins()[bar];
    QSignalSpy searched(&window_.search(), &SearchBar::searched);
    clickBar(bar);
    ASSERT_TRUE(searched.wait(kPatience));
    EXPECT_TRUE(window_.search().status().contains(QStringLiteral("of %1 ·").arg(lengths.count)))
        << window_.search().status().toStdString();
    ASSERT_TRUE(window_.page()->axis().selection());
    const Slice chosen = window_.files().document()->measured->slice(window_.page()->axis().selection()->slice);
    EXPECT_EQ(chosen.key.kind, TaskKind::forward);
    EXPECT_GE(chosen.duration().count(), lengths.from);
    EXPECT_LT(chosen.duration().count(), lengths.to);
    // The list shows exactly these.
    QSignalSpy listed(&window_.tables().tasks(), &TaskTable::listed);
    window_.tables().listTasks(window_.search().field().text());
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return window_.tables().tasks().model().rowCount() == static_cast<int>(lengths.count); }, kPatience));
}

TEST_F(WindowStatistics, CountThreadsAndStreamsOfAnotherProgram) {
    openThreads();
    front();
    ASSERT_TRUE(shows(QStringLiteral("aten::linear")));
    ASSERT_EQ(panel().sources().count(), 2) << "threads and streams";
    EXPECT_EQ(panel().model().index(0, StatisticsModel::self).data(kExportRole).toLongLong(), 50'000);
    panel().sources().setCurrentIndex(1);
    ASSERT_TRUE(shows(QStringLiteral("gemm")));
    ASSERT_TRUE(QTest::qWaitFor([&] { return panel().chart().bins().back().to == 71'000; }, kPatience));
    QSignalSpy searched(&window_.search(), &SearchBar::searched);
    clickBar(panel().chart().bins().size() - 1);
    ASSERT_TRUE(searched.wait(kPatience));
    EXPECT_TRUE(window_.search().status().startsWith(QStringLiteral("1 of 1 · gemm")))
        << window_.search().status().toStdString() << ": not gemm_nt, and not the shorter one";
    ASSERT_TRUE(window_.page()->axis().part());
    EXPECT_EQ(window_.page()->document()->tracks->rangeOf(window_.page()->axis().part()->range).length(), 70'000);
}

TEST_F(WindowStatistics, ShowTheCallTreeOfAMeasuredRange) {
    openThreads();
    front();
    ASSERT_TRUE(shows(QStringLiteral("aten::linear")));
    panel().views().setCurrentIndex(1);
    QSignalSpy counted(&panel(), &StatisticsPanel::counted);
    const TimeRange all = window_.page()->document()->tracks->range();
    window_.page()->axis().setRange(TimeRange{all.start, all.start + 200'000});
    ASSERT_TRUE(counted.wait(kPatience));
    const CallTreeModel& calls = panel().calls();
    ASSERT_EQ(calls.rowCount(), 1);
    const QModelIndex thread = calls.index(0, 0);
    ASSERT_EQ(calls.rowCount(thread), 1);
    const QModelIndex linear = calls.index(0, 0, thread);
    EXPECT_EQ(linear.data().toString(), QStringLiteral("aten::linear"));
    EXPECT_EQ(calls.index(0, CallTreeModel::total, thread).data(kExportRole).toLongLong(), 100'000);
    EXPECT_EQ(calls.index(0, CallTreeModel::self, thread).data(kExportRole).toLongLong(), 40'000);
    ASSERT_EQ(calls.rowCount(linear), 1);
    EXPECT_EQ(calls.index(0, 0, linear).data().toString(), QStringLiteral("aten::addmm"));
    EXPECT_EQ(calls.parent(calls.index(0, 0, linear)), linear);
    // A row leads to its longest call.
    QTreeView& tree = panel().tree();
    tree.expandAll();
    settle();
    QTest::mouseClick(tree.viewport(), Qt::LeftButton, {}, tree.visualRect(linear).center());
    ASSERT_TRUE(window_.page()->axis().part());
    EXPECT_EQ(window_.page()->document()->tracks->textOf(window_.page()->axis().part()->range), "aten::linear");
}

TEST_F(WindowStatistics, KeepTheChosenRowWhenTheViewMoves) {
    open("chosen.sqlite");
    front();
    ASSERT_TRUE(shows(QStringLiteral("forward")));
    QTableView& table = panel().table();
    int backward = -1;
    for (int row = 0; row < table.model()->rowCount(); ++row) {
        backward = table.model()->index(row, 0).data().toString() == QStringLiteral("backward") && backward < 0
                       ? row
                       : backward;
    }
    ASSERT_GE(backward, 0);
    table.selectRow(backward);
    QSignalSpy counted(&panel(), &StatisticsPanel::counted);
    window_.page()->axis().zoom(0.5, 0.9);
    ASSERT_TRUE(counted.wait(kPatience));
    EXPECT_EQ(table.currentIndex().siblingAtColumn(0).data().toString(), QStringLiteral("backward"));
}

TEST_F(WindowStatistics, ForgetTheRowsOfAnotherDocument) {
    open("forgotten.sqlite");
    StatisticsPanel alone;
    alone.resize(1400, 300);
    QSignalSpy measured(&alone, &StatisticsPanel::measured);
    alone.setDocument(window_.page()->document(), &window_.page()->axis(), 1);
    alone.show();
    ASSERT_TRUE(measured.wait(kPatience));
    ASSERT_GT(alone.model().rowCount(), 0);
    alone.hide();
    openThreads();
    alone.setDocument(window_.page()->document(), &window_.page()->axis(), 0);
    EXPECT_EQ(alone.model().rowCount(), 0) << "hidden, so nothing counts yet";
    EXPECT_EQ(alone.calls().rowCount(), 0);
    EXPECT_TRUE(alone.chart().bins().empty());
    alone.show();
    EXPECT_TRUE(QTest::qWaitFor(
        [&] {
            return alone.model().index(0, StatisticsModel::name).data().toString() == QStringLiteral("aten::linear");
        },
        kPatience));
}

TEST_F(WindowStatistics, PickNothingWhileNoRangeIsMeasured) {
    open("unmeasured.sqlite");
    front();
    ASSERT_TRUE(shows(QStringLiteral("forward")));
    ASSERT_TRUE(hasBars());
    QTableView& table = panel().table();
    QSignalSpy picked(&panel(), &StatisticsPanel::picked);
    panel().ranges().setCurrentIndex(3);
    QTest::mouseClick(table.viewport(), Qt::LeftButton, {}, table.visualRect(table.model()->index(1, 0)).center());
    EXPECT_TRUE(picked.isEmpty());
    EXPECT_TRUE(QTest::qWaitFor([&] { return panel().model().rowCount() == 0; }, kPatience));
    EXPECT_TRUE(panel().chart().bins().empty());
}

TEST_F(WindowStatistics, TheKeyboardChoosesABar) {
    open("bars.sqlite");
    front();
    ASSERT_TRUE(shows(QStringLiteral("forward")));
    ASSERT_TRUE(hasBars());
    LengthChart& chart = panel().chart();
    chart.setFocus();
    QTest::keyClick(&chart, Qt::Key_Right);
    EXPECT_EQ(chart.chosen(), 0U);
    QTest::keyClick(&chart, Qt::Key_Left);
    EXPECT_EQ(chart.chosen(), 0U) << "the first one";
    QSignalSpy searched(&window_.search(), &SearchBar::searched);
    QTest::keyClick(&chart, Qt::Key_Return);
    EXPECT_EQ(searched.wait(kPatience), chart.bins()[0].count > 0);
    EXPECT_TRUE(chart.hasFocus()) << "Find does not take it";
}
}  // namespace
}  // namespace pipescope
