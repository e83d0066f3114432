#include "gui/style/message_bar.h"
#include "gui/tables/bubble_panel.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/task_table.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_marks.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/scenario_model.h"
#include "gui/window/answer_bar.h"
#include "gui/window/scenario_tools.h"
#include "gui/window/search_bar.h"
#include "gui/window/step_strip.h"
#include "tests/gui/window/main_window_fixture.h"

#include "analysis/trace_comparison.h"

#include <gmock/gmock.h>

#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSet>
#include <QTableView>
#include <QToolButton>
#include <QTreeWidget>
#include <QUndoStack>

namespace pipescope {
namespace {
using testing::HasSubstr;

class WindowAnswer : public MainWindowTest {
protected:
    AnswerBar& answer() { return window_.page()->answer(); }
    QDockWidget& dock(const char* name) { return *window_.findChild<QDockWidget*>(QString::fromLatin1(name)); }
    QToolButton& group(const char* name) {
        for (auto* button : window_.findChildren<QToolButton*>()) {
            if (button->text() == QLatin1String(name) && button->isCheckable() &&
                button->parentWidget()->accessibleName() == QLatin1String("Groups of panels")) {
                return *button;
            }
        }
        throw Error(std::string("no group ") + name);
    }

    void judged() {
        ASSERT_TRUE(QTest::qWaitFor([this] { return answer().verdict() != nullptr; }, kPatience));
    }

    /// Clicks the first link of the answer with this evidence.
    void follow(Evidence evidence) {
        for (std::size_t part = 0; part < answer().verdict()->parts.size(); ++part) {
            if (answer().verdict()->parts[part].evidence == evidence) {
                Q_EMIT answer().label().linkActivated(QStringLiteral("#%1").arg(part));
                settle();
                return;
            }
        }
        FAIL() << "no such part in " << answer().text().toStdString();
    }
};

TEST_F(WindowAnswer, StandsOnTopAndSaysWhatCompareSays) {
    open("answer.sqlite");
    judged();
    EXPECT_TRUE(answer().isVisible());
    EXPECT_EQ(answer().mapTo(window_.page(), QPoint(0, 0)).y(), 0) << "nothing is above it";
    const RunVerdict compared = compare_trace(temporaryPath("answer.sqlite")).verdict;
    EXPECT_EQ(answer().text().toStdString(), compared.text());
    EXPECT_THAT(compared.text(), HasSubstr(" idle: "));
    EXPECT_TRUE(answer().label().text().contains(QStringLiteral("<a href")));
}

TEST_F(WindowAnswer, CutsALongTextAtItsLastLineAndKeepsTheLinks) {
    AnswerBar bar;
    auto verdict = std::make_shared<RunVerdict>();
    for (int part = 0; part < 30; ++part) {
        verdict->parts.push_back({"part " + std::to_string(part) + " of a long answer", Evidence::bubbles});
        verdict->parts.push_back({", "});
    }
    bar.setVerdict(verdict);
    bar.resize(800, bar.sizeHint().height());
    bar.show();
    settle();
    const int line = bar.label().fontMetrics().lineSpacing();
    const auto heightOfText = [&] {
        return bar.label().hasHeightForWidth() ? bar.label().heightForWidth(bar.label().width())
                                               : bar.label().sizeHint().height();
    };
    for (const int lines : {1, 2}) {
        bar.setMostLines(lines);
        settle();
        EXPECT_LE(heightOfText(), (lines + 0.5) * line);
        EXPECT_GT(heightOfText(), (lines - 0.5) * line) << "no line is given away";
        EXPECT_TRUE(bar.label().text().contains(QStringLiteral("<a href=\"#0\"")));
        EXPECT_TRUE(bar.label().text().contains(QChar(0x2026)));
        EXPECT_TRUE(bar.moreButton().isVisible());
    }
    QTest::mouseClick(&bar.moreButton(), Qt::LeftButton);
    settle();
    EXPECT_TRUE(bar.label().text().contains(QStringLiteral("part 29 of a long answer</a>")));
    EXPECT_FALSE(bar.label().text().contains(QChar(0x2026)));
    EXPECT_GT(heightOfText(), 3 * line);
    QTest::mouseClick(&bar.moreButton(), Qt::LeftButton);
    EXPECT_TRUE(bar.label().text().contains(QChar(0x2026)));
    verdict = std::make_shared<RunVerdict>();
    verdict->parts.push_back({"Nothing stands out."});
    bar.setVerdict(verdict);
    EXPECT_FALSE(bar.moreButton().isVisible());
}

TEST_F(WindowAnswer, TellsIdleTimeCausesAndChangeApart) {
    AnswerBar bar;
    auto verdict = std::make_shared<RunVerdict>();
    verdict->parts = {{"44 % idle", Evidence::bubbles, std::nullopt, std::nullopt, VerdictRole::idle},
                      {": "},
                      {"lane 5 takes longer", Evidence::lanes, std::nullopt, LaneId{5}, VerdictRole::cause},
                      {"."},
                      {" Other processes took 12 % of the cores' time meanwhile, in which nothing else could run.",
                       Evidence::none, std::nullopt, std::nullopt, VerdictRole::aside},
                      {" "},
                      {"Moving layer 3 would save 6 % of the step.", Evidence::change, std::nullopt, std::nullopt,
                       VerdictRole::change}};
    bar.setVerdict(verdict);
    bar.setMostLines(2);
    bar.resize(2000, 40);
    bar.show();
    settle();
    const auto shown = [&bar] { return bar.label().text(); };
    EXPECT_FALSE(shown().contains(QStringLiteral("<br>"))) << "one line suffices";
    EXPECT_TRUE(shown().contains(QStringLiteral("font-weight:bold;")));
    const QRegularExpression colour(QStringLiteral("color:(#[0-9a-f]{6})"));
    QSet<QString> colours;
    for (auto found = colour.globalMatch(shown()); found.hasNext();) {
        colours << found.next().captured(1);
    }
    EXPECT_EQ(colours.size(), 4) << "idle time, causes, asides, change";
    bar.resize(520, 60);
    settle();
    const QStringList lines = shown().split(QStringLiteral("<br>"));
    ASSERT_EQ(lines.size(), 2) << shown().toStdString();
    EXPECT_TRUE(lines[0].contains(QStringLiteral("lane 5 takes longer</a>")));
    EXPECT_FALSE(lines[0].contains(QStringLiteral("Other processes"))) << "an aside gives way first";
    EXPECT_TRUE(lines[1].contains(QStringLiteral("Moving layer 3"))) << "what would help has a line of its own";
    EXPECT_TRUE(bar.moreButton().isVisible());
    for (const char* link : {"#0", "#2", "#6"}) {
        EXPECT_TRUE(shown().contains(QStringLiteral("<a href=\"%1\"").arg(QLatin1String(link)))) << link;
    }
}

TEST_F(WindowAnswer, LeadsToTheBubblesAndTheLanes) {
    SampleRun run;
    run.partitions = 4;
    open("evidence.sqlite", run);
    judged();
    group("Data").click();
    settle();
    EXPECT_TRUE(dock("bubbles").isHidden());
    follow(Evidence::bubbles);
    EXPECT_FALSE(dock("bubbles").visibleRegion().isEmpty()) << "in front";
    VerdictPart lane{"", Evidence::lanes, std::nullopt, LaneId{2}};
    Q_EMIT answer().asked(lane);
    settle();
    EXPECT_FALSE(dock("lanes").visibleRegion().isEmpty());
    EXPECT_EQ(window_.tables().lanes().table().currentIndex().row(), 2);
    VerdictPart cause{"", Evidence::bubbles, BubbleCause::finished};
    Q_EMIT answer().asked(cause);
    EXPECT_EQ(window_.tables().bubbles().list().line().text(), nameOf(BubbleCause::finished));
}

TEST_F(WindowAnswer, KeepsAnOpenedPanelWhereItsGroupIsChosenAgain) {
    open("kept.sqlite");
    QDockWidget& plan = dock("clusterPlan");
    group("Change").click();
    settle();
    EXPECT_TRUE(plan.isHidden()) << "until somebody asks for it";
    plan.show();
    settle();
    group("Change").click();
    settle();
    EXPECT_FALSE(plan.isHidden());
    group("Find").click();
    settle();
    EXPECT_TRUE(plan.isHidden());
    group("Change").click();
    settle();
    EXPECT_FALSE(plan.isHidden());
    plan.close();
    group("Find").click();
    group("Change").click();
    settle();
    EXPECT_TRUE(plan.isHidden()) << "closed by the user";
}

TEST_F(WindowAnswer, FillsTheProposedChangeIntoTheWhatIfPanel) {
    open("proposed.sqlite");
    judged();
    ASSERT_TRUE(answer().verdict()->change);
    ScenarioModel& model = window_.scenarios().tools()->model();
    ASSERT_TRUE(model.isAsRecorded());
    follow(Evidence::change);
    EXPECT_FALSE(model.isAsRecorded());
    EXPECT_TRUE(dock("whatIf").isVisible());
    const PipelineOptions& wanted = answer().verdict()->change->simulation.options;
    EXPECT_EQ(model.scenario().options.chunks, wanted.chunks);
    EXPECT_EQ(model.scenario().options.balance, wanted.balance);
    model.undoStack().undo();
    EXPECT_TRUE(model.isAsRecorded());
}

TEST_F(WindowAnswer, HasNoAnswerAboutAFileWithoutTasksAndSaysSo) {
    SampleRun run;
    run.profile = false;
    open("unknown_change.sqlite", run);
    judged();
    EXPECT_FALSE(answer().verdict()->change);
    EXPECT_TRUE(dock("advice").isHidden());
    EXPECT_FALSE(group("Change").isVisible()) << "an empty group is absent";
    EXPECT_TRUE(group("Data").isVisible());
    EXPECT_TRUE(answer().messagesButton().isVisible());
    EXPECT_FALSE(window_.page()->messages().isVisible());
    QTest::mouseClick(&answer().messagesButton(), Qt::LeftButton);
    EXPECT_TRUE(window_.page()->messages().isVisible());
    EXPECT_LT(answer().geometry().top(), window_.page()->messages().geometry().top()) << "they never push it down";
    QTest::mouseClick(&answer().messagesButton(), Qt::LeftButton);
    EXPECT_FALSE(window_.page()->messages().isVisible());
}

TEST_F(WindowAnswer, GivesNoIdleTimeOfALossyRunWithoutASimulation) {
    const auto path = temporaryPath("lossy_alone.sqlite");
    writeSampleTrace(path, {.profile = false}, 17);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    judged();
    EXPECT_FALSE(answer().verdict()->idle);
    EXPECT_THAT(answer().text().toStdString(), testing::StartsWith("Idle time is not known: "));
}

TEST_F(WindowAnswer, ShowsTheTabsOfOneGroupAtATime) {
    open("groups.sqlite");
    EXPECT_TRUE(group("Find").isChecked());
    EXPECT_FALSE(dock("bubbles").isHidden());
    EXPECT_TRUE(dock("plan").isHidden());
    QTest::mouseClick(&group("Change"), Qt::LeftButton);
    settle();
    EXPECT_TRUE(dock("bubbles").isHidden());
    EXPECT_FALSE(dock("advice").isHidden());
    EXPECT_FALSE(dock("plan").isHidden());
    EXPECT_TRUE(dock("sql").isHidden());
    EXPECT_FALSE(dock("details").isHidden()) << "the description stays";
    const int height = dock("advice").height();
    dock("plan").raise();
    QTest::mouseClick(&group("Find"), Qt::LeftButton);
    QTest::mouseClick(&group("Change"), Qt::LeftButton);
    settle();
    EXPECT_FALSE(dock("plan").visibleRegion().isEmpty()) << "the tab that was in front of the group";
    EXPECT_GE(dock("plan").height(), height) << "the place gets no lower";
    QTest::mouseClick(&group("Data"), Qt::LeftButton);
    settle();
    EXPECT_FALSE(dock("sql").isHidden());
    EXPECT_FALSE(dock("marks").isHidden());
}

TEST_F(WindowAnswer, CountsARangeThatIsMeasured) {
    open("measured_range.sqlite");
    group("Data").click();
    settle();
    TimelineView& view = measured();
    const QPoint from(view.viewport()->width() / 2, view.viewport()->height() / 2);
    QTest::mousePress(view.viewport(), Qt::LeftButton, Qt::ShiftModifier, from);
    QTest::mouseMove(view.viewport(), from + QPoint(60, 0));
    QTest::mouseMove(view.viewport(), from + QPoint(120, 0));
    QTest::mouseRelease(view.viewport(), Qt::LeftButton, Qt::ShiftModifier, from + QPoint(120, 0));
    settle();
    ASSERT_TRUE(window_.page()->axis().range());
    EXPECT_FALSE(dock("statistics").visibleRegion().isEmpty()) << "in front";
    EXPECT_EQ(window_.tables().statistics().ranges().currentText(), QStringLiteral("Measured range"));
    window_.page()->axis().setRange(std::nullopt);
    EXPECT_EQ(window_.tables().statistics().ranges().currentText(), QStringLiteral("Visible range"));
}

TEST_F(WindowAnswer, ListsTheHitsOfASearchAndMarksThemOnTheOverview) {
    open("hits.sqlite");
    group("Data").click();
    QSignalSpy searched(&window_.search(), &SearchBar::searched);
    window_.search().find(QStringLiteral("B3"));
    ASSERT_TRUE(searched.count() > 0 || searched.wait(kPatience));
    const std::vector<std::int64_t>& marks = window_.page()->minimap().hits();
    EXPECT_EQ(marks.size(), 6U) << "one for each partition and step";
    EXPECT_TRUE(std::ranges::is_sorted(marks));
    for (auto* button : window_.search().findChildren<QToolButton*>()) {
        if (button->text() == QLatin1String("List")) {
            QTest::mouseClick(button, Qt::LeftButton);
        }
    }
    settle();
    EXPECT_FALSE(dock("tasks").visibleRegion().isEmpty()) << "in front";
    EXPECT_EQ(window_.tables().tasks().filter().text(), QStringLiteral("B3"));
    QTest::keyClick(&window_.search().field(), Qt::Key_Escape);
    EXPECT_TRUE(marks.empty());
}

TEST_F(WindowAnswer, ExplainsALaneAgainstTheMedianOneOrAnother) {
    SampleRun run;
    run.partitions = 4;
    run.steps = 4;
    open("ranks_apart.sqlite", run);
    SelectionPanel& reason = window_.tables().stepReason();
    const auto clickName = [this](int lane, Qt::KeyboardModifiers modifiers) {
        const QRect row = measured().laneRect(LaneId{lane});
        QTest::mouseClick(measured().viewport(), Qt::LeftButton, modifiers, QPoint(20, row.center().y()));
        settle();
    };
    const StepAnalysis& analysis = *window_.page()->model().analysis();
    const std::optional<LaneId> median = median_lane(*analysis.tasks(Source::measured));
    ASSERT_TRUE(median);
    const int lane = median->value() == 0 ? 1 : 0;
    clickName(lane, {});
    EXPECT_TRUE(reason.facts().title.startsWith(QStringLiteral("Why lane %1 works ").arg(lane)))
        << reason.facts().title.toStdString();
    EXPECT_EQ(reason.facts().simulatedName, QStringLiteral("lane %1").arg(median->value()));
    EXPECT_TRUE(window_.tables().selection().facts().text.startsWith(QStringLiteral("Lane %1 works ").arg(lane)));
    const int other = median->value() == 3 ? 2 : 3;
    clickName(other, Qt::ControlModifier);
    EXPECT_TRUE(reason.facts().title.startsWith(QStringLiteral("Why lane %1 works ").arg(lane))) << "it stays";
    EXPECT_EQ(reason.facts().simulatedName, QStringLiteral("lane %1").arg(other));
    const auto busyOf = [](const SelectionFacts& facts) { return facts.sections.at(0).rows.at(0); };
    const std::vector<LaneFacts> lanes = laneFacts(*window_.files().document(), window_.page()->model().step());
    EXPECT_EQ(busyOf(reason.facts()).measured, formatDuration(lanes.at(lane).measuredBusy->count()));
    EXPECT_EQ(busyOf(reason.facts()).simulated, formatDuration(lanes.at(other).measuredBusy->count()));
    clickName(other, {});
    EXPECT_TRUE(reason.facts().title.startsWith(QStringLiteral("Why lane %1 works ").arg(other)));
    window_.page()->axis().select(std::nullopt);
    settle();
    EXPECT_TRUE(reason.facts().title.startsWith(QStringLiteral("Why step "))) << "the step again";
}

TEST_F(WindowAnswer, ExplainsTheStepThatIsClicked) {
    SampleRun run;
    run.steps = 6;
    open("reason.sqlite", run);
    SelectionPanel& reason = window_.tables().stepReason();
    StepStrip& strip = window_.page()->stepStrip();
    std::size_t other = 0;
    for (std::size_t step = 0; step < strip.history().steps.size(); ++step) {
        other = step != *strip.history().median ? step : other;
    }
    strip.goTo(other);
    settle();
    const std::int32_t number = strip.history().steps[other].step;
    EXPECT_TRUE(reason.facts().title.startsWith(QStringLiteral("Why step %1 ").arg(number)))
        << reason.facts().title.toStdString();
    EXPECT_THAT(reason.facts().text.toStdString(), HasSubstr("the median step"));
    ASSERT_GE(reason.facts().sections.size(), 3U);
    EXPECT_EQ(reason.facts().sections.front().heading, QStringLiteral("On the critical path"));
    EXPECT_TRUE(window_.tables().selection().facts().text.startsWith(reason.facts().text))
        << "the description of the step has the sentence too";
    EXPECT_FALSE(dock("stepReason").visibleRegion().isEmpty()) << "in front after a click on a step";
    strip.goTo(strip.history().median);
    settle();
    EXPECT_TRUE(reason.facts().text.contains(QStringLiteral("is the median step")));
}

TEST_F(WindowAnswer, LeadsFromABubbleToTheChangeAgainstItAndBack) {
    SampleRun run;
    run.partitions = 4;
    open("roots.sqlite", run);
    const StepAnalysis& analysis = *window_.page()->model().analysis();
    const Bubble* ramp = nullptr;
    for (const Bubble& bubble : analysis.bubbles(Source::measured)) {
        ramp = analysis.rootOf(Source::measured, bubble) == RootCause::ramp ? &bubble : ramp;
    }
    ASSERT_NE(ramp, nullptr);
    const Bubble chosen = *ramp;
    window_.page()->model().select(Source::measured, chosen);
    settle();
    SelectionPanel& selection = window_.tables().selection();
    EXPECT_THAT(selection.facts().text.toStdString(), HasSubstr("Root cause: the schedule fills and drains."));
    ASSERT_TRUE(selection.link().isVisible());
    Q_EMIT selection.link().linkActivated(QStringLiteral("#advice"));
    settle();
    AdvicePanel& advice = window_.scenarios().tools()->advice();
    EXPECT_FALSE(dock("advice").visibleRegion().isEmpty());
    ASSERT_TRUE(QTest::qWaitFor([&] { return advice.isComplete(); }, kPatience));
    const QString title = advice.table().currentIndex().siblingAtColumn(AdviceTableModel::title).data().toString();
    EXPECT_TRUE(title.startsWith(QStringLiteral("Micro-batches"))) << title.toStdString();
    ASSERT_TRUE(advice.bubblesButton().isEnabled());
    QTest::mouseClick(&advice.bubblesButton(), Qt::LeftButton);
    settle();
    EXPECT_FALSE(dock("bubbles").visibleRegion().isEmpty());
    EXPECT_EQ(window_.tables().bubbles().list().line().text(), nameOf(RootCause::ramp));
    EXPECT_GT(window_.tables().bubbles().list().rows().rowCount(), 0);
    group("Change").click();
    QTest::mouseClick(&advice.checkButton(), Qt::LeftButton);
    EXPECT_TRUE(QApplication::clipboard()->text().startsWith(QStringLiteral("pipescope check sample --balance ")))
        << QApplication::clipboard()->text().toStdString();
    EXPECT_TRUE(QApplication::clipboard()->text().contains(QStringLiteral(" -- -m ")));
}

TEST_F(WindowAnswer, NamesWhoStillWorksWhereALaneIsDone) {
    open("done.sqlite");
    const StepAnalysis& analysis = *window_.page()->model().analysis();
    bool found = false;
    for (const Bubble& bubble : analysis.bubbles(Source::measured)) {
        if (bubble.cause == BubbleCause::finished) {
            found = true;
            EXPECT_THAT(analysis.sentence(Source::measured, bubble).toStdString(), HasSubstr(" still works, until "));
            EXPECT_NE(analysis.culpritOf(Source::measured, bubble), kNoTask);
        }
    }
    EXPECT_TRUE(found);
}
}  // namespace
}  // namespace pipescope
