#include "gui/document/baseline.h"
#include "gui/report/page_tables.h"
#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/message_bar.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/table_export.h"
#include "gui/tables/table_models.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/what_if/scenario_model.h"
#include "gui/window/scenario_tools.h"
#include "tests/gui/window/dialog_answer.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QTreeWidget>

#include <algorithm>
#include <vector>

namespace pipescope {
namespace {
/// A run shown above another one, which the user chose in the menu.
class WindowBaseline : public MainWindowTest {
protected:
    QAction* fileEntry(const char* text) {
        QMenu* menu = window_.menuBar()->actions().front()->menu();
        for (QAction* action : menu->actions()) {
            if (action->text().remove(QLatin1Char('&')).startsWith(QLatin1String(text))) {
                return action;
            }
        }
        return nullptr;
    }
    /// File > Compare with.., answered with the trace of that run.
    void compareWith(const std::string& name, const SampleRun& run) {
        const auto path = temporaryPath(name);
        writeSampleTrace(path, run);
        const DialogAnswer answer(QString::fromStdString(path.string()));
        fileEntry("Compare with")->trigger();
        EXPECT_TRUE(answer.answered());
        window_.finishWork();
    }
    const TraceDocument& shown() { return *window_.files().document(); }
    QString title(Source source) { return window_.page()->views().pane(source).title(); }
    static QString header(const QAbstractItemModel& model, int column, int role = Qt::DisplayRole) {
        return model.headerData(column, Qt::Horizontal, role).toString();
    }
    const QAbstractItemModel& lanes() { return *window_.tables().lanes().rows().sourceModel(); }
    QString legendText() {
        QStringList texts;
        for (const Legend* legend : window_.page()->findChildren<Legend*>()) {
            texts << legend->accessibleDescription();
        }
        return texts.join(u'\n');
    }
    const QAbstractItemModel& differences() { return *window_.tables().differences().rows().sourceModel(); }

    const SampleRun slower_{.forward_ns = 20'000'000};
};

TEST_F(WindowBaseline, FitsTheViewToBothRunsIfTheWholeStepIsInView) {
    open("after.sqlite");
    const TimeAxisModel& axis = window_.page()->axis();
    compareWith("longer.sqlite", slower_);
    const double longer = axis.window().length;
    EXPECT_EQ(axis.window(), windowOf(stepRange(shown(), window_.page()->model().step())));
    compareWith("shorter.sqlite", {});  // the longer run is no longer on screen
    EXPECT_EQ(axis.window(), windowOf(stepRange(shown(), window_.page()->model().step())));
    EXPECT_LT(axis.window().length, 0.7 * longer);
    window_.page()->navigation().fitSelection();
    window_.page()->axis().zoom(0.5, 0.5);
    const double part = axis.window().length;
    window_.page()->model().showBaseline(shown().baseline);
    EXPECT_NEAR(axis.window().length, part, 1) << "a part stays a part";
}

TEST_F(WindowBaseline, StandsInThePlaceOfTheSimulationAndSaysSo) {
    open("after.sqlite");
    const std::int64_t simulated = shown().simulated->steps().front().statistics.step_time().count();
    compareWith("before.sqlite", slower_);
    ASSERT_TRUE(shown().baseline);
    EXPECT_EQ(title(Source::measured), QStringLiteral("AFTER"));
    EXPECT_EQ(title(Source::simulated), QStringLiteral("BEFORE"));
    EXPECT_GT(shown().simulated->steps().front().statistics.step_time().count(), simulated);
    EXPECT_TRUE(headlineOf(window_, Source::simulated).startsWith(QStringLiteral("before.sqlite")));
    for (const Source source : {Source::measured, Source::simulated}) {
        const QString facts = headlineOf(window_, source);
        EXPECT_TRUE(facts.contains(QStringLiteral("samples/s"))) << facts.toStdString();
    }
    const QString summary = window_.page()->findChild<ElidedLabel*>()->text();
    EXPECT_TRUE(summary.contains(QRegularExpression(QStringLiteral("step time \\S+ after, \\S+ before "))))
        << "in the order of the window and its tables: " << summary.toStdString();
    EXPECT_TRUE(summary.contains(QStringLiteral("more than the noise"))) << summary.toStdString();
    EXPECT_FALSE(summary.contains(QStringLiteral("simulated"))) << summary.toStdString();

    EXPECT_EQ(header(lanes(), LaneTableModel::measured_busy), QStringLiteral("Busy\nafter"));
    EXPECT_EQ(header(lanes(), LaneTableModel::simulated_busy), QStringLiteral("Busy\nbefore"));
    EXPECT_EQ(header(lanes(), LaneTableModel::simulated_peak, kExportRole), QStringLiteral("before_peak_bytes"));
    EXPECT_GT(lanes().index(0, LaneTableModel::simulated_busy).data(kExportRole).toLongLong(),
              lanes().index(0, LaneTableModel::measured_busy).data(kExportRole).toLongLong());
    EXPECT_GT(lanes().index(0, LaneTableModel::simulated_peak).data(kExportRole).toLongLong(), 0);
    ASSERT_EQ(differences().rowCount(), 10);
    EXPECT_TRUE(header(differences(), 3, Qt::ToolTipRole).startsWith(QStringLiteral("After minus before")));
    EXPECT_LT(differences().index(0, DifferenceTableModel::difference).data(kExportRole).toLongLong(), 0)
        << "after minus before: it became faster";

    ASSERT_TRUE(fileEntry("Back to the simulation")->isEnabled());
    fileEntry("Back to the simulation")->trigger();
    EXPECT_FALSE(shown().baseline);
    EXPECT_EQ(title(Source::measured), QStringLiteral("MEASURED"));
    EXPECT_EQ(title(Source::simulated), QStringLiteral("SIMULATED"));
    EXPECT_EQ(header(lanes(), LaneTableModel::simulated_busy), QStringLiteral("Busy\nsimulated"));
    EXPECT_EQ(shown().simulated->steps().front().statistics.step_time().count(), simulated);
    EXPECT_FALSE(fileEntry("Back to the simulation")->isEnabled());
}

TEST_F(WindowBaseline, OfTheSameRunDiffersInNothing) {
    open("twice.sqlite");
    compareWith("twice.sqlite", {});
    ASSERT_TRUE(shown().baseline);
    EXPECT_EQ(shown().comparison->tasks_unmatched, 0);
    EXPECT_GT(shown().comparison->tasks_matched, 0);
    EXPECT_EQ(shown().stepChange->difference(), 0);
    window_.page()->model().setChoice({.mode = CompareMode::difference});
    EXPECT_TRUE(legendText().contains(QStringLiteral("no difference"))) << legendText().toStdString();
    EXPECT_FALSE(legendText().contains(QStringLiteral("early")));
    EXPECT_EQ(shown().comparison->measured_step_mean, *shown().comparison->simulated_step_mean);
    for (int row = 0; row < differences().rowCount(); ++row) {
        EXPECT_EQ(differences().index(row, DifferenceTableModel::difference).data(kExportRole).toLongLong(), 0);
    }
    // The page shows the same step in both timelines.
    EXPECT_EQ(shown().baseline->step, window_.page()->model().step());
    for (const TaskPair& pair : window_.page()->model().analysis()->matching().pairs) {
        EXPECT_EQ(pair.start_change, 0);
        EXPECT_EQ(pair.end_change, 0);
    }
    EXPECT_TRUE(window_.page()->model().analysis()->matching().unmatched.empty());
    for (int row = 0; row < lanes().rowCount(); ++row) {
        for (const int column :
             {LaneTableModel::measured_busy, LaneTableModel::measured_bubble, LaneTableModel::measured_peak}) {
            EXPECT_EQ(lanes().index(row, column).data(), lanes().index(row, column + 1).data());
        }
    }
}

TEST_F(WindowBaseline, MarksATasksTwinWithTheRightWordsAndSign) {
    open("after.sqlite");
    compareWith("before.sqlite", slower_);
    const std::int32_t step = window_.page()->model().step();
    const TaskKey key{step, TaskKind::backward, 1, 2, -1};
    window_.page()->model().select(Source::measured, slice(Source::measured, key));
    const auto& selection = window_.page()->axis().selection();
    ASSERT_TRUE(selection && selection->twin);
    TaskKey twin = shown().simulated->slice(*selection->twin).key;
    EXPECT_EQ(twin.step, shown().baseline->step);
    twin.step = step;
    EXPECT_EQ(twin, key);
    const auto* table = window_.tables().selection().findChild<QTreeWidget*>();
    EXPECT_EQ(table->headerItem()->text(1), QStringLiteral("After"));
    EXPECT_EQ(table->headerItem()->text(2), QStringLiteral("Before"));
    const QList<QTreeWidgetItem*> duration = table->findItems(QStringLiteral("Duration"), Qt::MatchExactly);
    ASSERT_FALSE(duration.isEmpty());
    EXPECT_TRUE(duration.front()->text(3).startsWith(QChar(0x2212)) || duration.front()->text(3).startsWith(u'-'))
        << duration.front()->text(3).toStdString();
}

TEST_F(WindowBaseline, StaysWhenTheFileIsReadAgainAndGivesWayToAScenario) {
    open("after.sqlite");
    compareWith("before.sqlite", slower_);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().reload();
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_TRUE(shown().baseline);
    EXPECT_EQ(title(Source::simulated), QStringLiteral("BEFORE"));

    ScenarioTools& tools = *window_.scenarios().tools();
    window_.finishWork();
    EXPECT_TRUE(shown().baseline) << "opening the tools changes nothing";
    Scenario scenario = tools.model().scenario();
    scenario.options.chunks = 2;
    tools.model().change(scenario, QStringLiteral("chunks"));
    window_.finishWork();
    EXPECT_FALSE(shown().baseline);
    EXPECT_TRUE(title(Source::simulated).contains(QStringLiteral("WHAT IF")));
    EXPECT_EQ(title(Source::measured), QStringLiteral("MEASURED"));
    compareWith("before.sqlite", slower_);
    EXPECT_EQ(title(Source::simulated), QStringLiteral("BEFORE"));
}

TEST_F(WindowBaseline, OfAnotherBalanceComparesNoTasks) {
    open("after.sqlite");
    compareWith("three.sqlite", {.partitions = 3});
    ASSERT_TRUE(shown().baseline);
    EXPECT_FALSE(shown().whyNoTwins.empty());
    EXPECT_EQ(differences().rowCount(), 0);
    EXPECT_TRUE(window_.page()->model().analysis()->matching().pairs.empty());
    EXPECT_TRUE(window_.page()->model().analysis()->matching().unmatched.empty());
    const TaskKey key{window_.page()->model().step(), TaskKind::forward, 0, 0, -1};
    window_.page()->model().select(Source::measured, slice(Source::measured, key));
    EXPECT_FALSE(window_.page()->axis().selection()->twin);
    EXPECT_EQ(lanes().rowCount(), 3);
    EXPECT_TRUE(window_.page()->findChild<ElidedLabel*>()->text().contains(QStringLiteral("not comparable")));
    const QString why = QStringLiteral("the balance was 1,1,1 and is 1,1");
    EXPECT_TRUE(shown().messages().join(u' ').contains(why));
    window_.page()->model().setChoice({.mode = CompareMode::difference});
    EXPECT_TRUE(legendText().contains(QStringLiteral("faint: tasks are not compared: ") + why))
        << legendText().toStdString();
    EXPECT_FALSE(legendText().contains(QStringLiteral("early")));
}

TEST_F(WindowBaseline, IsRefusedWithAReasonAndLeavesTheSimulation) {
    open("after.sqlite");
    const std::string path = temporaryPath("broken.sqlite").string();
    QFile broken(QString::fromStdString(path));
    ASSERT_TRUE(broken.open(QIODevice::WriteOnly));
    broken.write("no trace");
    broken.close();
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    window_.files().compareWith({QString::fromStdString(path)});
    window_.finishWork();
    ASSERT_EQ(failed.size(), 1);
    EXPECT_FALSE(shown().baseline);
    EXPECT_EQ(title(Source::simulated), QStringLiteral("SIMULATED"));
}

TEST_F(WindowBaseline, IsInTheTablesOfThePage) {
    open("after.sqlite");
    compareWith("before.sqlite", slower_);
    const TraceDocument& document = *window_.page()->document();
    const PageTable figures = figuresTable(document, window_.page()->model().step());
    std::vector<PageTable> tables = runTables(document);
    tables.push_back(figures);
    for (const PageTable& table : tables) {
        EXPECT_FALSE(table.title.contains(QStringLiteral("simulated"))) << table.title.toStdString();
        EXPECT_FALSE(table.header.join(u' ').contains(QStringLiteral("imulated"))) << table.title.toStdString();
    }
    EXPECT_EQ(figures.title, QStringLiteral("After and before"));
    const auto configuration = std::ranges::find(tables, QStringLiteral("Configuration"), &PageTable::title);
    ASSERT_NE(configuration, tables.end());
    EXPECT_EQ(configuration->rows[2].value(1), QStringLiteral("before.sqlite"));
    const QString change = figures.rows.front().value(3);
    EXPECT_TRUE(change.startsWith(QChar(0x2212)) || change.startsWith(u'-')) << change.toStdString();
}

TEST_F(WindowBaseline, SaysWhyNoTaskIsListedAmongTheDifferences) {
    open("after.sqlite");
    const auto reason = [&] {
        QStringList texts;
        for (const auto* label : window_.tables().differences().findChildren<QLabel*>()) {
            texts << (label->isVisibleTo(&window_.tables().differences()) ? label->text() : QString());
        }
        return texts.join(u' ');
    };
    compareWith("same.sqlite", {});
    EXPECT_EQ(differences().rowCount(), 0) << "no task differs from itself";
    EXPECT_TRUE(reason().contains(QStringLiteral("All tasks took equally long"))) << reason().toStdString();
    SampleRun other;
    other.partitions = 4;
    compareWith("other.sqlite", other);
    ASSERT_FALSE(shown().whyNoTwins.empty());
    EXPECT_TRUE(reason().contains(QString::fromStdString(shown().whyNoTwins))) << reason().toStdString();
}
}  // namespace
}  // namespace pipescope
