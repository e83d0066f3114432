#include "gui/tables/table_models.h"
#include "gui/document/document_loader.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QHeaderView>
#include <QSignalSpy>
#include <QTest>

namespace pipescope {
namespace {
TEST(LaneTableModel, ShowsMeasuredBesideSimulated) {
    const auto path = temporaryPath("lane_table.sqlite");
    writeSampleTrace(path);
    const auto document = loadTrace(QString::fromStdString(path.string()));
    LaneTableModel model;
    const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    model.setRows(laneFacts(*document, 1));
    ASSERT_EQ(model.rowCount(), 2);
    for (int row = 0; row < 2; ++row) {
        for (int column = 0; column < model.columnCount(); ++column) {
            EXPECT_NE(model.index(row, column).data().toString(), QStringLiteral("–")) << column;
        }
    }
    EXPECT_EQ(model.index(0, LaneTableModel::lane).data().toString(), QStringLiteral("lane 0"));
}

TEST(LaneTableModel, ShowsADashForWhatIsNotKnown) {
    LaneTableModel model;
    LaneFacts facts;
    facts.lane = QStringLiteral("lane 0");
    model.setRows({facts});
    EXPECT_EQ(model.index(0, LaneTableModel::measured_peak).data().toString(), QStringLiteral("–"));
}

TEST(LaneTableModel, IsExportedInPlainNumbers) {
    LaneFacts facts;
    facts.lane = QStringLiteral("lane 0");
    facts.measuredBusy = Nanoseconds{1'234'567};
    facts.simulatedBubble = 0.25;
    facts.measuredPeak = 3'000'000'000;
    LaneTableModel model;
    model.setRows({facts});
    EXPECT_EQ(tableText(model, TableFormat::csv),
              QByteArray("lane,measured_busy_ns,simulated_busy_ns,measured_bubble_fraction,simulated_bubble_fraction,"
                         "measured_peak_bytes,simulated_peak_bytes\n"
                         "lane 0,1234567,,,0.25,3000000000,\n"));
}

TEST(DifferenceTableModel, IsExportedInPlainNumbers) {
    DifferenceTableModel model;
    model.setRows({{{2, TaskKind::backward, 1, 3, -1}, Nanoseconds{21'000'000}, Nanoseconds{20'000'000}}});
    const QList<QByteArray> lines = tableText(model, TableFormat::csv).split('\n');
    EXPECT_EQ(lines[0], QByteArray("task,measured_ns,simulated_ns,difference_ns"));
    EXPECT_TRUE(lines[1].endsWith(",21000000,20000000,-1000000")) << lines[1].toStdString();
}

class FilteredLanes : public testing::Test {
protected:
    void SetUp() override {
        std::vector<LaneFacts> facts(3);
        constexpr std::array busy{900'000, 2'000'000, 10'000'000};  // as text, 10 ms would come before 2 ms
        for (std::size_t lane = 0; lane < facts.size(); ++lane) {
            facts[lane].lane = QStringLiteral("lane %1").arg(lane);
            facts[lane].measuredBusy = Nanoseconds{busy[lane]};
        }
        facts[1].simulatedPeak = 5;
        model_.setRows(facts);
        table_.resize(900, 300);
        table_.show();
        ASSERT_TRUE(QTest::qWaitForWindowActive(&table_, kPatience));
    }

    QStringList shown() {
        QStringList names;
        for (int row = 0; row < table_.rows().rowCount(); ++row) {
            names << table_.rows().index(row, LaneTableModel::lane).data().toString();
        }
        return names;
    }
    static QStringList lanes(const std::vector<int>& numbers) {
        QStringList names;
        for (const int number : numbers) {
            names << QStringLiteral("lane %1").arg(number);
        }
        return names;
    }

    LaneTableModel model_;
    FilteredTable table_{model_, QStringLiteral("Lanes"), QStringLiteral("no lanes")};
};

TEST_F(FilteredLanes, AreThoseThatHoldEveryTypedWord) {
    const QAbstractItemModelTester tester(&table_.rows(), QAbstractItemModelTester::FailureReportingMode::Fatal);
    EXPECT_EQ(shown(), lanes({0, 1, 2}));
    table_.table().setFocus();
    QTest::keyClicks(&table_.table(), QStringLiteral("/"));
    ASSERT_TRUE(table_.line().hasFocus());
    QTest::keyClicks(&table_.line(), QStringLiteral("LANE 1"));
    EXPECT_EQ(shown(), lanes({1, 2}));  // lane 2 is busy for 10 ms
    QTest::keyClick(&table_.line(), Qt::Key_Escape);
    EXPECT_EQ(shown(), lanes({0, 1, 2}));
    QTest::keyClick(&table_.line(), Qt::Key_Return);
    EXPECT_TRUE(table_.table().hasFocus());
}

TEST_F(FilteredLanes, AreSortedByValueOnceAHeaderIsClicked) {
    QHeaderView& header = *table_.table().horizontalHeader();
    const auto click = [&](int column) {
        QTest::mouseClick(header.viewport(), Qt::LeftButton, {},
                          {header.sectionViewportPosition(column) + 10, header.height() / 2});
    };
    click(LaneTableModel::measured_busy);
    const bool ascending = header.sortIndicatorOrder() == Qt::AscendingOrder;
    EXPECT_EQ(shown(), ascending ? lanes({0, 1, 2}) : lanes({2, 1, 0}));
    click(LaneTableModel::measured_busy);
    EXPECT_EQ(shown(), ascending ? lanes({2, 1, 0}) : lanes({0, 1, 2}));
    for (int i = 0; i < 2; ++i) {  // what is not known comes last in either order
        click(LaneTableModel::simulated_peak);
        EXPECT_EQ(shown().front(), QStringLiteral("lane 1"));
    }
}

TEST_F(FilteredLanes, AreNotFoundByAHiddenColumn) {
    table_.line().setText(QStringLiteral("10.00"));
    EXPECT_EQ(shown(), lanes({2}));
    table_.setColumnHidden(LaneTableModel::measured_busy, true);
    EXPECT_EQ(shown(), lanes({}));
    table_.setColumnHidden(LaneTableModel::measured_busy, false);
    EXPECT_EQ(shown(), lanes({2}));
}

TEST_F(FilteredLanes, SayWhyThereAreNone) {
    EXPECT_EQ(table_.hint(), QString());
    QTest::keyClicks(&table_.line(), QStringLiteral("nonsense"));
    EXPECT_TRUE(table_.hint().contains(QStringLiteral("No row")));
    model_.setRows({});
    EXPECT_EQ(table_.hint(), QStringLiteral("no lanes"));
}

TEST_F(FilteredLanes, LeadToTheRowOfTheModel) {
    QSignalSpy picked(&table_, &FilteredTable::picked);
    QTest::keyClicks(&table_.line(), QStringLiteral("10"));
    QTest::mouseClick(table_.table().viewport(), Qt::LeftButton, {},
                      table_.table().visualRect(table_.rows().index(0, 0)).center());
    ASSERT_EQ(picked.count(), 1);
    EXPECT_EQ(picked[0][0].toModelIndex().row(), 2);
}

TEST(DifferenceTableModel, CallsHalfABackwardByItsName) {
    Timeline timeline;
    timeline.lanes = {{"lane 0", "cpu"}};
    const TaskKey half{2, TaskKind::backward, 0, 3, -1};
    timeline.slices = {
        {{2, TaskKind::backward_weight, 0, 3, -1}, LaneId{0}, Nanoseconds{50}, Nanoseconds{90}, 0},
        {half, LaneId{0}, Nanoseconds{0}, Nanoseconds{50}, 0},
    };
    sort_slices(timeline);
    auto document = std::make_shared<TraceDocument>();
    document->measured = std::make_shared<const TimelineStore>(timeline);
    DifferenceTableModel model;
    model.setDocument(document);
    model.setRows({{half, Nanoseconds{50}, Nanoseconds{60}}});
    EXPECT_EQ(model.index(0, DifferenceTableModel::task).data().toString(),
              QStringLiteral("step 2: backward of inputs of micro-batch 3 on partition 0"));
    EXPECT_EQ(model.index(0, DifferenceTableModel::task).data(kExportRole).toString(),
              QString::fromStdString(to_string(half)))
        << "exports have the trace's own kind";
}

TEST(DifferenceTableModel, NamesTaskAndDifference) {
    DifferenceTableModel model;
    const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    const TaskKey task{2, TaskKind::backward, 1, 3, -1};
    model.setRows({{task, Nanoseconds{21'000'000}, Nanoseconds{20'000'000}}});
    EXPECT_EQ(model.index(0, DifferenceTableModel::task).data().toString(),
              QStringLiteral("step 2: backward of micro-batch 3 on partition 1"));
    EXPECT_TRUE(model.index(0, DifferenceTableModel::difference).data().toString().startsWith(QChar(0x2212)));
    EXPECT_EQ(model.rowAt(0)->task, task);
}
}  // namespace
}  // namespace pipescope
