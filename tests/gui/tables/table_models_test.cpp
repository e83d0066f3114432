#include "gui/document/document_loader.h"
#include "gui/tables/difference_table_model.h"
#include "gui/tables/lane_table_model.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

namespace pipescope {
namespace {
TEST(LaneTableModel, ShowsMeasuredBesideSimulated) {
    const auto path = temporaryPath("lane_table.sqlite");
    writeSampleTrace(path);
    const auto document = loadTrace(QString::fromStdString(path.string()));
    LaneTableModel model;
    const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    model.setFacts(laneFacts(*document, 1));
    ASSERT_EQ(model.rowCount(), 2);
    for (int row = 0; row < 2; ++row) {
        for (int column = 0; column < LaneTableModel::kColumns; ++column) {
            EXPECT_NE(model.index(row, column).data().toString(), QStringLiteral("–")) << column;
        }
    }
    EXPECT_EQ(model.index(0, LaneTableModel::lane).data().toString(), QStringLiteral("lane 0"));
}

TEST(LaneTableModel, ShowsADashForWhatIsNotKnown) {
    LaneTableModel model;
    LaneFacts facts;
    facts.lane = QStringLiteral("lane 0");
    model.setFacts({facts});
    EXPECT_EQ(model.index(0, LaneTableModel::measured_peak).data().toString(), QStringLiteral("–"));
}

TEST(DifferenceTableModel, NamesTaskAndDifference) {
    DifferenceTableModel model;
    const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    const TaskKey task{2, TaskKind::backward, 1, 3, -1};
    model.setTasks({{task, Nanoseconds{21'000'000}, Nanoseconds{20'000'000}}});
    EXPECT_EQ(model.index(0, DifferenceTableModel::task).data().toString(),
              QStringLiteral("step 2: backward of micro-batch 3 on partition 1"));
    EXPECT_TRUE(model.index(0, DifferenceTableModel::difference).data().toString().startsWith(QChar(0x2212)));
    EXPECT_EQ(model.taskOf(model.index(0, 0)), task);
}
}  // namespace
}  // namespace pipescope
