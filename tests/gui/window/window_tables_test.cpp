#include "gui/console/sql_console.h"
#include "gui/tables/task_table.h"
#include "gui/tables/task_table_model.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QDockWidget>
#include <QTableView>

namespace pipescope {
namespace {
using WindowTables = MainWindowTest;

TEST_F(WindowTables, GoesFromARowOfAQueryToItsTask) {
    open("query.sqlite");
    SqlConsole& console = window_.console();
    console.setSql(
        QStringLiteral("SELECT id FROM PIPESCOPE_TASK WHERE source = 'measured' AND step = 1 AND kind = 'backward' "
                       "AND partition = 1 AND microBatch = 2"));
    QSignalSpy finished(&console, &SqlConsole::finished);
    console.run();
    ASSERT_TRUE(finished.wait(kPatience));
    QSignalSpy selected(&window_, &MainWindow::selectionChanged);
    Q_EMIT console.table().clicked(console.table().model()->index(0, 0));
    ASSERT_TRUE(selected.wait(kPatience));
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->slice, slice(Source::measured, task_));
    EXPECT_GT(measured().rectOf(slice(Source::measured, task_)).width(), measured().lanesRect().width() / 5);
}

TEST_F(WindowTables, GoesFromARowToItsTaskAndBack) {
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

TEST_F(WindowTables, ListsTasksWithoutATwin) {
    open("unmatched.sqlite");
    auto* table = window_.findChild<QDockWidget*>(QStringLiteral("unmatched"))->findChild<QTableView*>();
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
}  // namespace
}  // namespace pipescope
