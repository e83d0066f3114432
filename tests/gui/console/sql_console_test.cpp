#include "gui/console/sql_console.h"

#include "gui/console/sql_examples.h"
#include "gui/document/bubble_table.h"
#include "gui/document/document_loader.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>
#include <QTextBlock>
#include <QTextLayout>

namespace pipescope {
namespace {
class SqlConsoleTest : public testing::Test {
protected:
    void SetUp() override {
        const auto path = temporaryPath("console.sqlite");
        writeSampleTrace(path);
        console_.resize(1000, 300);
        console_.show();
        console_.setFile(QString::fromStdString(path.string()));
        document_ = loadTrace(QString::fromStdString(path.string()));
        console_.setTables([document = document_](const std::string& sql, const std::function<bool()>& cancelled) {
            return readsBubbles(sql) ? std::vector<SqlTable>{bubbleTable(*document, 1, cancelled)}
                                     : std::vector<SqlTable>{};
        });
    }

    void run(const QString& sql) {
        console_.setSql(sql);
        QSignalSpy finished(&console_, &SqlConsole::finished);
        QTest::keyClick(console_.findChild<QPlainTextEdit*>(), Qt::Key_Return, Qt::ControlModifier);
        ASSERT_TRUE(finished.wait(kPatience));
    }

    QModelIndex cell(int row, int column) { return console_.table().model()->index(row, column); }

    void click(const QModelIndex& index) {
        QTest::mouseClick(console_.table().viewport(), Qt::LeftButton, {}, console_.table().visualRect(index).center());
    }

    SqlConsole console_;
    std::shared_ptr<const TraceDocument> document_;
};

TEST_F(SqlConsoleTest, RunsAQueryByKeyAndShowsItsRows) {
    const QAbstractItemModelTester tester(&console_.results(), QAbstractItemModelTester::FailureReportingMode::Fatal);
    run(QStringLiteral("SELECT step, NULL AS none, 'a text' FROM PIPESCOPE_STEP"));
    EXPECT_EQ(console_.error(), QString());
    ASSERT_EQ(console_.results().rowCount(), 3);
    EXPECT_EQ(cell(2, 0).data().toString(), QStringLiteral("2"));
    EXPECT_EQ(cell(0, 1).data().toString(), QStringLiteral("NULL"));
    EXPECT_TRUE(console_.status().startsWith(QStringLiteral("3 row"))) << console_.status().toStdString();
}

TEST_F(SqlConsoleTest, RunsEveryExampleItOffers) {
    auto* box = console_.findChild<QComboBox*>();
    ASSERT_EQ(box->count(), static_cast<int>(sqlExamples().size()));
    for (const SqlExample& example : sqlExamples()) {
        run(example.sql);
        EXPECT_EQ(console_.error(), QString()) << example.title.toStdString();
    }
}

TEST_F(SqlConsoleTest, QueriesTheBubblesOfTheComparedStepsAndTheSimulatedOne) {
    run(QStringLiteral(
        "SELECT source, step, sum(share), sum(shown) > 0 FROM pipescope_bubble GROUP BY 1, 2 ORDER BY 1, 2"));
    ASSERT_EQ(console_.error(), QString());
    ASSERT_EQ(console_.results().rowCount(), static_cast<int>(document_->comparison->steps.size()) + 1);
    for (int row = 0; row < console_.results().rowCount(); ++row) {
        const bool measured = cell(row, 0).data().toString() == QStringLiteral("measured");
        const int step = cell(row, 1).data().toInt();
        const StepSpan* span = measured ? document_->measured->step(step) : &document_->simulated->steps().front();
        ASSERT_NE(span, nullptr);
        EXPECT_NEAR(cell(row, 2).data(kExportRole).toDouble(), span->statistics.bubble_fraction, 1e-7);
        EXPECT_EQ(cell(row, 3).data().toInt(), !measured || step == 1 ? 1 : 0);
    }
    QSignalSpy times(&console_, &SqlConsole::timePicked);
    run(QStringLiteral("SELECT start FROM PIPESCOPE_BUBBLE WHERE shown AND source = 'measured' LIMIT 1"));
    click(cell(0, 0));
    ASSERT_EQ(times.size(), 1);
    EXPECT_GE(times.at(0).at(0).toLongLong(), document_->measured->step(1)->range().start);
    // Only queries: the table can be neither changed nor left behind.
    run(QStringLiteral("DELETE FROM PIPESCOPE_BUBBLE"));
    EXPECT_NE(console_.error(), QString());
    run(QStringLiteral("SELECT count(*) FROM sqlite_master WHERE name LIKE '%BUBBLE%'"));
    EXPECT_EQ(cell(0, 0).data().toString(), QStringLiteral("0"));
}

TEST_F(SqlConsoleTest, TellsLineAndColumnOfAnErrorAndMarksIt) {
    run(QStringLiteral("SELECT 1"));
    ASSERT_EQ(console_.results().rowCount(), 1);
    console_.setHistory({});
    run(QStringLiteral("SELECT step\nFROM PIPESCOPE_STEP\nWHERE größe = 3"));
    EXPECT_TRUE(console_.error().contains(QStringLiteral("Line 3, column 7"))) << console_.error().toStdString();
    const auto marked = console_.findChild<QPlainTextEdit*>()->extraSelections();
    ASSERT_EQ(marked.size(), 1);
    EXPECT_EQ(marked[0].cursor.selectedText(), QStringLiteral("größe"));
    EXPECT_TRUE(console_.history().isEmpty());  // only what worked is worth going back to
    EXPECT_EQ(console_.results().rowCount(), 0) << "the rows of the query before";
    run(QStringLiteral("SELECT 1"));
    EXPECT_EQ(console_.error(), QString());
    EXPECT_TRUE(console_.findChild<QPlainTextEdit*>()->extraSelections().isEmpty());
}

TEST_F(SqlConsoleTest, LeadsFromATaskOrATimeToTheTimeline) {
    QSignalSpy tasks(&console_, &SqlConsole::taskPicked);
    QSignalSpy times(&console_, &SqlConsole::timePicked);
    run(QStringLiteral("SELECT step, start FROM PIPESCOPE_STEP ORDER BY step"));
    click(cell(1, 0));
    EXPECT_EQ(times.count(), 0);  // a step's number is no time
    click(cell(1, 1));
    ASSERT_EQ(times.count(), 1);
    EXPECT_EQ(times[0][0].toLongLong(), cell(1, 1).data().toLongLong());

    run(
        QStringLiteral("SELECT kind, id AS which, start FROM PIPESCOPE_TASK WHERE source = 'measured' AND step = 2 "
                       "AND kind = 'backward' AND partition = 1 AND microBatch = 3"));
    click(cell(0, 1));
    ASSERT_TRUE(tasks.wait(kPatience));
    EXPECT_EQ(tasks[0][1].value<TaskKey>(), (TaskKey{2, TaskKind::backward, 1, 3, -1}));
    click(cell(0, 2));  // a time beside its task leads to the task
    ASSERT_TRUE(tasks.wait(kPatience));
    EXPECT_EQ(tasks[1][0].value<Source>(), Source::measured);
    EXPECT_EQ(times.count(), 1);
}

TEST_F(SqlConsoleTest, FiltersTheRowsAndStillLeadsToWhatTheyTell) {
    QSignalSpy times(&console_, &SqlConsole::timePicked);
    run(QStringLiteral("SELECT 's' || step AS name, start FROM PIPESCOPE_STEP ORDER BY step"));
    const QString third = cell(2, 1).data().toString();
    console_.findChild<FilterLine*>()->setText(QStringLiteral("s2"));
    ASSERT_EQ(console_.table().model()->rowCount(), 1);
    click(cell(0, 1));
    ASSERT_EQ(times.count(), 1);
    EXPECT_EQ(times[0][0].toLongLong(), third.toLongLong());
}

TEST_F(SqlConsoleTest, CancelsAQueryThatNeverEnds) {
    console_.setSql(
        QStringLiteral("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"));
    QSignalSpy finished(&console_, &SqlConsole::finished);
    console_.run();
    EXPECT_TRUE(console_.running());
    for (QPushButton* button : console_.findChildren<QPushButton*>()) {
        if (button->text().contains(QStringLiteral("Cancel"))) {
            QTest::mouseClick(button, Qt::LeftButton);
        }
    }
    ASSERT_TRUE(finished.wait(kPatience));
    EXPECT_FALSE(console_.running());
    EXPECT_TRUE(console_.error().contains(QStringLiteral("cancelled")));
}

TEST_F(SqlConsoleTest, KeepsAHistoryAndBringsItBackByKey) {
    run(QStringLiteral("SELECT 1"));
    run(QStringLiteral("SELECT 2"));
    run(QStringLiteral("SELECT 1"));
    EXPECT_EQ(console_.history(), (QStringList{QStringLiteral("SELECT 1"), QStringLiteral("SELECT 2")}));
    auto* editor = console_.findChild<QPlainTextEdit*>();
    QTest::keyClick(editor, Qt::Key_Up, Qt::ControlModifier);
    QTest::keyClick(editor, Qt::Key_Up, Qt::ControlModifier);
    EXPECT_EQ(console_.sql(), QStringLiteral("SELECT 2"));
    QTest::keyClick(editor, Qt::Key_Down, Qt::ControlModifier);
    EXPECT_EQ(console_.sql(), QStringLiteral("SELECT 1"));
}

TEST_F(SqlConsoleTest, LosesNoTextToHistoryExamplesOrEscape) {
    run(QStringLiteral("SELECT 1"));
    const QString draft = QStringLiteral("SELECT step FROM");
    console_.setSql(draft);
    auto* editor = console_.findChild<QPlainTextEdit*>();
    QTest::keyClick(editor, Qt::Key_Escape);
    EXPECT_EQ(console_.sql(), draft);
    QTest::keyClick(editor, Qt::Key_Up, Qt::ControlModifier);
    EXPECT_EQ(console_.sql(), QStringLiteral("SELECT 1"));
    QTest::keyClick(editor, Qt::Key_Down, Qt::ControlModifier);
    EXPECT_EQ(console_.sql(), draft);
    console_.setSql(QStringLiteral("SELECT 2"));  // as an example does
    editor->undo();
    EXPECT_EQ(console_.sql(), draft);
}

TEST_F(SqlConsoleTest, EndsARunningQueryWithEscape) {
    console_.setSql(
        QStringLiteral("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"));
    QSignalSpy finished(&console_, &SqlConsole::finished);
    console_.run();
    QTest::keyClick(console_.findChild<QPlainTextEdit*>(), Qt::Key_Escape);
    ASSERT_TRUE(finished.wait(kPatience));
    EXPECT_TRUE(console_.error().contains(QStringLiteral("cancelled")));
}

TEST_F(SqlConsoleTest, SaysWhatToDoInsteadOfAttachingAFile) {
    run(QStringLiteral("ATTACH 'other.sqlite' AS other"));
    EXPECT_TRUE(console_.error().contains(QStringLiteral("open the files of a run together")))
        << console_.error().toStdString();
}

TEST_F(SqlConsoleTest, SaysThatThereAreMoreRowsThanItShows) {
    run(QStringLiteral("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) SELECT i FROM n"));
    EXPECT_EQ(console_.results().rowCount(), 10'000);
    EXPECT_TRUE(console_.status().contains(QStringLiteral("more"))) << console_.status().toStdString();
}

TEST_F(SqlConsoleTest, ExportsPlainValues) {
    run(QStringLiteral("SELECT 1 AS a, 'x, \"y\"' AS b, NULL AS c, 0.5 AS d"));
    EXPECT_EQ(tableText(console_.results(), TableFormat::csv), QByteArray("a,b,c,d\n1,\"x, \"\"y\"\"\",,0.5\n"));
    EXPECT_EQ(tableText(console_.results(), TableFormat::json),
              QByteArray("[\n{\"a\": 1, \"b\": \"x, \\\"y\\\"\", \"c\": null, \"d\": 0.5}\n]\n"));
}

TEST_F(SqlConsoleTest, ColoursTheWordsOfSql) {
    console_.setSql(QStringLiteral("SELECT step FROM PIPESCOPE_STEP"));
    QApplication::processEvents();
    const auto formats = console_.findChild<QPlainTextEdit*>()->document()->firstBlock().layout()->formats();
    ASSERT_EQ(formats.size(), 3);  // SELECT, FROM, the table
    EXPECT_EQ(formats[0].length, 6);
    EXPECT_NE(formats[0].format.foreground(), formats[2].format.foreground());
}

TEST_F(SqlConsoleTest, SaysWhatToDoWithoutAFile) {
    console_.setFile({});
    EXPECT_TRUE(console_.status().contains(QStringLiteral("Open a trace")));
    console_.run();
    EXPECT_FALSE(console_.running());
}
}  // namespace
}  // namespace pipescope
