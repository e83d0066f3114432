#include "gui/tables/task_table.h"

#include "gui/document/document_loader.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_export.h"
#include "gui/tables/table_models.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QComboBox>
#include <QElapsedTimer>
#include <QHeaderView>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>

namespace pipescope {
namespace {
std::shared_ptr<const TraceDocument> sample() {
    const auto path = temporaryPath("tasks.sqlite");
    writeSampleTrace(path);
    return loadTrace(QString::fromStdString(path.string()));
}

class TaskTableTest : public testing::Test {
protected:
    void SetUp() override {
        table_.resize(1000, 400);
        table_.show();
        QSignalSpy listed(&table_, &TaskTable::listed);
        table_.setDocument(document_, 1);
        ASSERT_TRUE(listed.wait(kPatience));
    }

    void type(const QString& text) {
        // Sets the text at once. Typed letter by letter, it could produce intermediate lists.
        QSignalSpy listed(&table_, &TaskTable::listed);
        table_.filter().setText(text);
        ASSERT_TRUE(listed.wait(kPatience));
    }

    std::shared_ptr<const TraceDocument> document_ = sample();
    TaskTable table_;
};

TEST_F(TaskTableTest, ListsAllTasksAndKeepsToTheRulesOfModels) {
    const QAbstractItemModelTester tester(&table_.model(), QAbstractItemModelTester::FailureReportingMode::Fatal);
    EXPECT_EQ(table_.model().rowCount(), static_cast<int>(document_->measured->numSlices()));
    EXPECT_TRUE(table_.status().contains(QStringLiteral("tasks")));
}

TEST_F(TaskTableTest, FiltersByTextKindAndLane) {
    type(QStringLiteral("backward 2 1"));
    EXPECT_EQ(table_.model().rowCount(), 3);  // one a step
    EXPECT_EQ(table_.model().index(0, 0).data().toString(), QStringLiteral("backward of micro-batch 2 on partition 1"));
    type(QStringLiteral("mb 2"));
    const int all = table_.model().rowCount();
    QSignalSpy listed(&table_, &TaskTable::listed);
    table_.kinds().setCurrentIndex(table_.kinds().findData(static_cast<int>(TaskKind::forward)));
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rowCount(), 6);
    table_.lanes().setCurrentIndex(1);
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rowCount(), 3);
    EXPECT_GT(all, 6);
}

TEST_F(TaskTableTest, SaysWhenAFilterNamesNothing) {
    table_.filter().setText(QStringLiteral("nonsense"));
    EXPECT_TRUE(table_.status().contains(QStringLiteral("is not a task")));
    EXPECT_GT(table_.model().rowCount(), 0);  // what was listed stays
}

TEST_F(TaskTableTest, SortsWhenAHeaderIsClicked) {
    QHeaderView* header = table_.table().horizontalHeader();
    QSignalSpy listed(&table_, &TaskTable::listed);
    const int column = static_cast<int>(TaskColumn::measured);
    const QPoint at(header->sectionViewportPosition(column) + 10, header->height() / 2);
    QTest::mouseClick(header->viewport(), Qt::LeftButton, {}, at);
    ASSERT_TRUE(listed.wait(kPatience));
    const TaskRows& rows = *table_.model().rows();
    EXPECT_EQ(std::min(*rows.at(0).measured, *rows.at(rows.size() - 1).measured), [&] {
        std::int64_t least = *rows.at(0).measured;
        for (std::size_t row = 0; row < rows.size(); ++row) {
            least = std::min(least, *rows.at(row).measured);
        }
        return least;
    }());
}

TEST_F(TaskTableTest, PicksTheTaskOfAClickedRowAndMarksTheRowOfASelectedTask) {
    QSignalSpy picked(&table_, &TaskTable::picked);
    const QModelIndex index = table_.model().index(3, 0);
    QTest::mouseClick(table_.table().viewport(), Qt::LeftButton, {}, table_.table().visualRect(index).center());
    ASSERT_EQ(picked.count(), 1);
    EXPECT_EQ(picked[0][1].value<SliceRef>(), table_.model().rows()->sliceAt(3));
    const std::size_t last = table_.model().rows()->size() - 1;
    table_.select(Source::measured, table_.model().rows()->sliceAt(last));
    EXPECT_EQ(table_.table().currentIndex().row(), static_cast<int>(last));
    EXPECT_EQ(picked.count(), 1);  // being marked is no pick
    QSignalSpy listed(&table_, &TaskTable::listed);
    const SliceRef other{0, 2};
    table_.select(Source::simulated, other);
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rows()->source(), Source::simulated);
    EXPECT_EQ(table_.table().currentIndex().row(), static_cast<int>(*table_.model().rows()->rowOf(other)));
}

TEST_F(TaskTableTest, ExportsPlainNumbers) {
    type(QStringLiteral("F0 p0 step 1"));
    const QByteArray csv = tableText(table_.model(), TableFormat::csv);
    const QList<QByteArray> lines = csv.split('\n');
    EXPECT_EQ(lines[0], QByteArray("task,step,lane,start_ns,measured_ns,simulated_ns,difference_ns,difference_share"));
    const TaskRow row = table_.model().rows()->at(0);
    EXPECT_TRUE(lines[1].contains(QByteArray::number(qlonglong{*row.measured}))) << lines[1].toStdString();
    EXPECT_EQ(lines.size(), 3);
    EXPECT_TRUE(tableText(table_.model(), TableFormat::json).contains("\"step\": 1,"));
}

std::shared_ptr<const TraceDocument> longDocument(int tasks) {
    Timeline timeline{Source::measured, {{"lane 0", ""}}, {}};
    timeline.slices.reserve(static_cast<std::size_t>(tasks));
    for (int k = 0; k < tasks; ++k) {
        timeline.slices.push_back({{k / 64, TaskKind::forward, 0, k % 64, -1},
                                   LaneId{0},
                                   Nanoseconds{100 * k},
                                   Nanoseconds{100 * k + 50 + k % 50},
                                   0});
    }
    auto document = std::make_shared<TraceDocument>();
    document->measured = std::make_shared<const TimelineStore>(timeline);
    return document;
}

TEST_F(TaskTableTest, ListsTheChosenStepOfALongTraceUntilAllIsAskedFor) {
    constexpr int kTasks = static_cast<int>(TaskTable::kMostListedUnasked) + 1;
    const auto document = longDocument(kTasks);
    QSignalSpy listed(&table_, &TaskTable::listed);
    table_.setDocument(document, 3);
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rowCount(), 64);
    EXPECT_EQ(table_.model().rows()->at(0).slice.key.step, 3);
    table_.setDocument(document, 4);  // the list goes along with the chosen step
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rows()->at(0).slice.key.step, 4);
    type(QStringLiteral("step 7 F5"));  // what is typed goes before the box
    ASSERT_EQ(table_.model().rowCount(), 1);
    EXPECT_EQ(table_.model().rows()->at(0).slice.key.step, 7);
    type(QString());
    table_.steps().setFocus();
    QTest::keyClick(&table_.steps(), Qt::Key_Up);
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rowCount(), kTasks);
}

TEST_F(TaskTableTest, IsFilteredByKeyboard) {
    ASSERT_TRUE(QTest::qWaitForWindowActive(&table_, kPatience));
    table_.table().setFocus();
    QTest::keyClicks(&table_.table(), QStringLiteral("/"));
    EXPECT_TRUE(table_.filter().hasFocus());
    QSignalSpy listed(&table_, &TaskTable::listed);
    QTest::keyClicks(&table_.filter(), QStringLiteral("p1"));
    QTest::keyClick(&table_.filter(), Qt::Key_Down);
    EXPECT_TRUE(table_.table().hasFocus());
    table_.filter().setFocus();
    QTest::keyClick(&table_.filter(), Qt::Key_Escape);
    EXPECT_TRUE(table_.filter().text().isEmpty());
    QTest::keyClick(&table_.filter(), Qt::Key_Escape);
    EXPECT_TRUE(table_.table().hasFocus());
}

TEST_F(TaskTableTest, AnswersWhileAMillionTasksAreListed) {
    constexpr int kTasks = 1'000'000;
    const auto large = longDocument(kTasks);
    QSignalSpy listed(&table_, &TaskTable::listed);
    QElapsedTimer timer;
    timer.start();
    table_.setDocument(large, 0);
    EXPECT_LT(timer.elapsed(), 2000);  // a few ms: the worker does it
    ASSERT_TRUE(listed.wait(kPatience));
    EXPECT_EQ(table_.model().rowCount(), kTasks);
    timer.restart();
    table_.table().scrollToBottom();
    QApplication::processEvents();
    EXPECT_LT(timer.elapsed(), 2000);
}

TEST(StatisticsPanelTest, FollowsTheVisibleRange) {
    const auto document = sample();
    TimeAxisModel axis;
    axis.setTotal(wholeRange(*document, 1));
    StatisticsPanel panel;
    const QAbstractItemModelTester tester(&panel.model(), QAbstractItemModelTester::FailureReportingMode::Fatal);
    panel.show();
    QSignalSpy counted(&panel, &StatisticsPanel::counted);
    panel.setDocument(document, &axis, 1);
    ASSERT_TRUE(counted.wait(kPatience));
    const auto tasks = [&] { return panel.model().index(0, StatisticsModel::count).data().toInt(); };
    EXPECT_EQ(tasks(), 3 * 2 * 4);  // forwards: steps, partitions, micro-batches
    axis.show(document->measured->step(1)->range());
    ASSERT_TRUE(counted.wait(kPatience));
    EXPECT_EQ(tasks(), 2 * 4);
    panel.ranges().setCurrentIndex(2);
    ASSERT_TRUE(counted.wait(kPatience));
    EXPECT_EQ(tasks(), 3 * 2 * 4);
    axis.setRange(document->measured->step(2)->range());
    EXPECT_EQ(panel.ranges().currentIndex(), 3) << "a measured range is what one wants the statistics of";
    ASSERT_TRUE(QTest::qWaitFor([&] { return tasks() == 2 * 4; }, kPatience));
    axis.setRange(std::nullopt);
    EXPECT_EQ(panel.ranges().currentIndex(), 0) << "back to what is visible";
    ASSERT_TRUE(QTest::qWaitFor([&] { return tasks() == 2 * 4; }, kPatience));
}
}  // namespace
}  // namespace pipescope
