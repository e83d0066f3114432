#include "gui/report/page_tables.h"

#include "gui/document/baseline.h"
#include "gui/document/document_loader.h"
#include "gui/document/headlines.h"
#include "gui/document/step_analysis.h"
#include "gui/document/step_history.h"
#include "gui/style/number_format.h"
#include "gui/style/theme.h"
#include "gui/tables/selection_facts.h"
#include "gui/tables/selection_panel.h"
#include "tests/gui/sample_trace.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <QApplication>
#include <QHeaderView>
#include <QTreeWidget>

#include <algorithm>
#include <iterator>
#include <map>

namespace pipescope {
namespace {
std::shared_ptr<const TraceDocument> sample(const std::string& name, std::int64_t dropped = 0) {
    const auto path = temporaryPath(name);
    writeSampleTrace(path, {}, dropped);
    return loadTrace(QString::fromStdString(path.string()));
}

/// All tables of the document's page.
std::vector<PageTable> tablesOf(const TraceDocument& document) {
    const std::int32_t step = typicalStep(document);
    std::vector<PageTable> tables{figuresTable(document, step), lanesTable(document, step)};
    std::ranges::move(runTables(document), std::back_inserter(tables));
    return tables;
}

/// Titles, notes and cells, one per line.
QString textOf(const std::vector<PageTable>& tables) {
    QStringList lines;
    for (const PageTable& table : tables) {
        lines << table.title << table.note;
        for (const QStringList& row : table.rows) {
            lines << row;
        }
    }
    return lines.join(u'\n') + u'\n';
}

TEST(PageTables, TellsConfigurationErrorsLossesAndEnvironment) {
    const auto document = sample("report.sqlite");
    const QString text = textOf(tablesOf(*document));
    for (const char* wanted : {"Configuration", "1,1", "except_last", "Step time, median", "Bubble fraction", "lane 1",
                               "float32", "Tasks whose median durations differ most", "Lost records", "Environment"}) {
        EXPECT_TRUE(text.contains(QString::fromUtf8(wanted))) << wanted;
    }
    EXPECT_FALSE(text.contains(QStringLiteral("refused")));
}

TEST(PageTables, TellsTheConfigurationThoughTheProfileCannotBeRead) {
    const auto path = temporaryPath("no_profile.sqlite");
    writeSampleTrace(path);
    SQLite::Database trace(path.string(), SQLite::OPEN_READWRITE);
    trace.exec("UPDATE PIPESCOPE_PROFILE SET profile = '{}'");
    const auto shown = [&] {
        const auto document = loadTrace(QString::fromStdString(path.string()));
        return textOf(tablesOf(*document));
    };
    QString text = shown();
    for (const char* wanted :
         {"except_last", "1,1\n", "Micro-batches", "As the file says, which holds a run that cannot be"}) {
        EXPECT_TRUE(text.contains(QLatin1String(wanted))) << wanted;
    }
    trace.exec(
        "UPDATE PIPESCOPE_RUN SET value = json_set(value, '$.chunks', 0, '$.placement', json('[7]')) "
        "WHERE key = 'configuration'");
    EXPECT_TRUE(shown().contains(QStringLiteral("which holds a run that cannot be")));
    trace.exec("UPDATE PIPESCOPE_RUN SET value = '3' WHERE key = 'configuration'");
    text = shown();
    EXPECT_TRUE(text.contains(QStringLiteral("not known how the run was configured: the file holds a run that")));
    EXPECT_FALSE(text.contains(QStringLiteral("does not say how")));
}

TEST(PageTables, OfASimulatedTraceTellsItsStepAndAllThatWasAskedOfIt) {
    SampleRun run;
    run.cv = 0.2;
    const Simulation simulation = simulate(sampleProfile(run), sampleOptions(run));
    PipelineOptions options = sampleOptions(run);
    options.hardware.memory_limit.reset();
    options.hardware.memory_limits = {Bytes{3} << 30, Bytes{2} << 30};
    options.most_in_flight = 2;
    options.replicas = 2;
    writeSimulatedTrace(temporaryPath("simulated_report.sqlite"), run);
    TraceDocument document = *loadTrace(QString::fromStdString(temporaryPath("simulated_report.sqlite").string()));
    document.simulation->options = options;
    std::map<QString, QString> values;
    for (const PageTable& table : tablesOf(document)) {
        for (const QStringList& row : table.rows) {
            values[row[0]] = row[1];
        }
    }
    for (const QString& header : lanesTable(document, typicalStep(document)).header) {
        EXPECT_FALSE(header.contains(QStringLiteral("measured"))) << header.toStdString();
    }
    const StepFigures expected = expected_figures(simulation);
    EXPECT_EQ(values[QStringLiteral("Step time, expected")], formatDuration(expected.step.count()));
    EXPECT_EQ(values[QStringLiteral("Step time without noise")], formatDuration(simulation.step_time.count()));
    EXPECT_EQ(values[QStringLiteral("Bubble fraction")], formatShare(expected.bubble));
    EXPECT_EQ(values[QStringLiteral("Replicas")], QStringLiteral("2"));
    EXPECT_EQ(values[QStringLiteral("Micro-batches in flight")], QStringLiteral("at most 2"));
    EXPECT_EQ(values[QStringLiteral("Memory limit per lane")],
              formatBytes(Bytes{3} << 30) + QStringLiteral(", ") + formatBytes(Bytes{2} << 30));
    EXPECT_EQ(values[QStringLiteral("Link")], formatRate(10e9) + QStringLiteral(", latency ") + formatDuration(50'000));
}

TEST(Selection, SaysWhichSimulatedFiguresAreOfTheExpectedStep) {
    SampleRun run;
    const auto textOf = [&](const char* name) {
        writeSimulatedTrace(temporaryPath(name), run);
        const auto document = loadTrace(QString::fromStdString(temporaryPath(name).string()));
        const std::int32_t step = typicalStep(*document);
        return factsOf(*document, StepAnalysis(document, step), step, {}, {}).text;
    };
    EXPECT_EQ(textOf("plain_step.sqlite"), QString());
    run.cv = 0.2;
    EXPECT_TRUE(
        textOf("expected_step.sqlite").contains(QStringLiteral("Lanes and causes are those of the step drawn")));
}

TEST(Selection, ElidesALongNameRatherThanItsFigure) {
    SelectionPanel panel;
    SelectionFacts facts;
    facts.title = QStringLiteral("Recording");
    facts.measuredName = QStringLiteral("time");
    facts.sections = {{QStringLiteral("Names"), {{QString(200, QLatin1Char('k')), QStringLiteral("12.3 ms"), {}, {}}}}};
    panel.resize(380, 400);
    panel.setFacts(facts);
    panel.show();
    QApplication::processEvents();
    const auto* table = panel.findChild<QTreeWidget*>();
    ASSERT_NE(table, nullptr);
    EXPECT_LE(table->header()->sectionPosition(1) + table->header()->sectionSize(1), table->viewport()->width());
}

TEST(Selection, ShortensCausesRatherThanElideThem) {
    SelectionPanel panel;
    SelectionFacts facts;
    facts.title = QStringLiteral("Step 5");
    facts.measuredName = QStringLiteral("measured");
    facts.simulatedName = QStringLiteral("simulated");
    const QString share = QStringLiteral("0.4 %");
    facts.sections = {{QStringLiteral("Figures"),
                       {{QStringLiteral("Model"), QStringLiteral("1.09 TFLOP/s"), QStringLiteral("1.11 TFLOP/s")}}},
                      {QStringLiteral("Causes"),
                       {{nameOf(BubbleCause::previous_partition), share, share},
                        {nameOf(BubbleCause::updates_parameters), share, share}}}};
    panel.resize(305, 400);
    panel.setFacts(facts);
    panel.show();
    QApplication::processEvents();
    const auto* table = panel.findChild<QTreeWidget*>();
    ASSERT_NE(table, nullptr);
    for (int i = 0; i < table->topLevelItemCount(); ++i) {
        const QTreeWidgetItem& item = *table->topLevelItem(i);
        EXPECT_LE(table->fontMetrics().horizontalAdvance(item.text(0)), table->header()->sectionSize(0))
            << item.text(0).toStdString();
    }
}

TEST(Selection, KeepsFiguresOfTwoColumnsApart) {
    applyTheme(Theme::light);  // whose style has the margins
    SelectionPanel panel;
    SelectionFacts facts;
    facts.title = QStringLiteral("Step 5");
    facts.measuredName = QStringLiteral("measured");
    facts.simulatedName = QStringLiteral("simulated");
    const FactRow row{QStringLiteral("Speed"), QStringLiteral("16.8 MFLOP/s"), QStringLiteral("1.80 GFLOP/s"),
                      QStringLiteral("+10,000.0 %")};
    facts.sections = {{QStringLiteral("Figures"), {row}}};
    panel.resize(700, 400);
    panel.setFacts(facts);
    panel.show();
    QApplication::processEvents();
    const auto* table = panel.findChild<QTreeWidget*>();
    ASSERT_NE(table, nullptr);
    const QFontMetrics metrics = table->fontMetrics();
    for (const auto& [column, text] : {std::pair{1, row.measured}, {2, row.simulated}, {3, row.difference}}) {
        EXPECT_GE(table->header()->sectionSize(column), metrics.horizontalAdvance(text) + 8) << column;
    }
}

TEST(PageTables, RefusesBubbleFiguresOfALossyTrace) {
    const std::vector<PageTable> tables = tablesOf(*sample("lossy.sqlite", 17));
    EXPECT_TRUE(textOf(tables).contains(QStringLiteral("not shown: ranges were lost")));
    for (const PageTable& table : tables) {
        for (const QStringList& row : table.rows) {
            if (row[0].startsWith(QStringLiteral("Bubble fraction"))) {
                EXPECT_FALSE(row[1].contains(QLatin1Char('%')));
                EXPECT_FALSE(row[3].contains(QStringLiteral("points")));
            }
        }
    }
}

TEST(UnmatchedTasks, NamesTheReasonOfEachKind) {
    const auto complete = sample("complete.sqlite");
    EXPECT_TRUE(unmatchedTasks(*complete).empty());
    // One forward was not recorded in step 1, an optimizer ran that is not simulated, a backward ran twice.
    Timeline timeline = sampleTimeline({});
    std::erase_if(timeline.slices, [](const Slice& slice) {
        return slice.key == TaskKey{1, TaskKind::forward, 0, 2, -1};
    });
    Slice twice = timeline.slices.back();
    twice.key = {2, TaskKind::backward, 0, 0, -1};
    timeline.slices.push_back(twice);
    twice.key = {2, TaskKind::optimizer, 0, -1, -1};
    timeline.slices.push_back(twice);
    TraceDocument document = *complete;
    document.measured = std::make_shared<const TimelineStore>(timeline);
    const std::vector<UnmatchedTasks> found = unmatchedTasks(document);
    ASSERT_EQ(found.size(), 3u);
    std::size_t missing = 0;
    for (const UnmatchedTasks& each : found) {
        EXPECT_EQ(each.count, 1u) << each.reason.toStdString();
        missing += each.reason.contains(QStringLiteral("not recorded")) &&
                           each.examples[0] == TaskKey{1, TaskKind::forward, 0, 2, -1}
                       ? 1
                       : 0;
    }
    EXPECT_EQ(missing, 1u);
}

// A step whose update begins late still has it.
TEST(UnmatchedTasks, HoldAnOptimizerThatRanLongAfterItsStep) {
    TraceDocument document = *sample("late.sqlite");
    Timeline timeline = sampleTimeline({});
    const StepStatistics first = step_statistics(timeline, 0);
    const Nanoseconds length = first.step_time();
    for (Slice& slice : timeline.slices) {
        slice.start += slice.key.step * 10 * length;
        slice.end += slice.key.step * 10 * length;
    }
    for (const std::int32_t step : {0, 1, 2}) {
        const Nanoseconds end = step_statistics(timeline, step).end;
        timeline.slices.push_back(
            {{step, TaskKind::optimizer, 0, -1, -1}, LaneId{0}, end + 5 * length, end + 6 * length, 0});
    }
    document.measured = std::make_shared<const TimelineStore>(timeline);
    const std::vector<UnmatchedTasks> found = unmatchedTasks(document);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].count, 3U);
}

TEST(PageTables, RefusesStepTimesOfOneRankAlone) {
    TraceDocument document = *sample("alone.sqlite");
    TraceWarning warning = refusal("this is the trace of one rank alone", "alone");
    warning.of_steps = true;
    document.run.warnings = document.warnings = {warning};
    const PageTable table = figuresTable(document, 1);
    EXPECT_EQ(table.rows[0][1], QStringLiteral("refused"));
    for (const QStringList& row : table.rows) {
        EXPECT_NE(row[0], QStringLiteral("Samples/s"));
    }
    EXPECT_EQ(comparisonHeadline(document),
              QStringLiteral("Step times are not compared, this is the trace of one rank alone"));
}

/// The note of the figures, and the first cell of each row.
QStringList totalsOf(const TraceDocument& document) {
    const PageTable table = figuresTable(document, 1);
    QStringList names{table.note};
    for (const QStringList& row : table.rows) {
        names << row[0];
    }
    return names;
}

TEST(PageTables, SaysOfEachFigureWhetherItIsAMeanOrAMedian) {
    TraceDocument document = *sample("means.sqlite");
    EXPECT_EQ(totalsOf(document).mid(0, 5),
              (QStringList{QStringLiteral("Over 2 steps, without warm-up."), QStringLiteral("Step time, median"),
                           QStringLiteral("Bubble fraction, median"), QStringLiteral("Peak memory of the fullest lane"),
                           QStringLiteral("Whole step, host included, median")}));
    document.comparison->simulated_step_mean = document.comparison->simulated_step_time;
    EXPECT_EQ(totalsOf(document).mid(1, 4),
              (QStringList{QStringLiteral("Step time, mean"), QStringLiteral("Bubble fraction, mean"),
                           QStringLiteral("Peak memory of the fullest lane"),
                           QStringLiteral("Whole step, host included, median")}));
    document.comparison->steps.resize(1);
    document.comparableSteps = 1;
    EXPECT_EQ(totalsOf(document).front(), QStringLiteral("Over 1 step, without warm-up."));
}

/// The row of the fullest lane, of a document with two timelines.
QStringList peakRow(const TraceDocument& document) {
    for (const QStringList& row : figuresTable(document, 1).rows) {
        if (row[0] == QStringLiteral("Peak memory of the fullest lane")) {
            return row;
        }
    }
    return {};
}

TEST(PageTables, GivesThePeakOverTheComparedSteps) {
    TraceDocument document = *sample("peaks.sqlite");
    ASSERT_TRUE(document.comparison);
    const std::optional<Bytes> whole = document.comparison->lanes[1].measured_peak_bytes;
    ASSERT_TRUE(whole);
    const auto same = withBaseline(document, baselineOf(document));
    EXPECT_EQ(same->comparison->lanes[1].measured_peak_bytes, whole);
    EXPECT_EQ(same->comparison->lanes[1].simulated_peak_bytes, *whole) << "the run before has the same steps";
    EXPECT_EQ(peakRow(*same)[1], peakRow(*same)[2]);
    document.comparison->lanes[1].measured_peak_bytes = Bytes{1} << 40;  // in another step than the chosen one
    EXPECT_EQ(peakRow(document)[1], formatBytes(Bytes{1} << 40));
}

TEST(PageTables, CountsATaskWithoutTwinOnTheSideThatHasIt) {
    TraceDocument document = *sample("one_side.sqlite");
    ASSERT_TRUE(document.comparison);
    document.comparison->tasks_unmatched = 7;
    document.comparison->tasks_only_simulated = 5;
    for (const QStringList& row : figuresTable(document, 1).rows) {
        if (row[0].startsWith(QStringLiteral("Tasks without a twin"))) {
            EXPECT_EQ(row.mid(1, 2), (QStringList{QStringLiteral("2"), QStringLiteral("5")}));
            return;
        }
    }
    FAIL() << "no such row";
}

TEST(PageTables, GivesNoBatchThatNobodyKnows) {
    TraceDocument document = *sample("no_batch.sqlite");
    const auto batch = [&]() -> QString {
        for (const PageTable& table : runTables(document)) {
            for (const QStringList& row : table.rows) {
                if (row[0] == QStringLiteral("Mini-batch")) {
                    return row[1];
                }
            }
        }
        return QStringLiteral("no such row");
    };
    EXPECT_TRUE(batch().endsWith(QStringLiteral(" samples"))) << batch().toStdString();
    document.run.of_another_program = true;
    EXPECT_EQ(batch(), unknownValue()) << "each micro-batch counts as a sample";
    document.run.micro_batch_samples = 4;
    EXPECT_TRUE(batch().endsWith(QStringLiteral(" samples"))) << batch().toStdString();
}

TEST(PageTables, SaysHowManyStepsItCompares) {
    TraceDocument document = *sample("some_steps.sqlite");
    EXPECT_FALSE(figuresTable(document, 1).note.contains(QStringLiteral("evenly chosen")));
    document.comparableSteps = 4000;  // of which the sample's two were taken
    for (const QString& text : {figuresTable(document, 1).note, comparisonHeadline(document)}) {
        EXPECT_TRUE(text.contains(QStringLiteral("2 of 4000 steps, evenly chosen"))) << text.toStdString();
    }
}
}  // namespace
}  // namespace pipescope
