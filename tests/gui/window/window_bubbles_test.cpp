#include "gui/document/scenario.h"
#include "gui/tables/bubble_panel.h"
#include "gui/tables/selection_panel.h"
#include "gui/timeline/timeline_marks.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QTableView>
#include <QTreeWidget>

#include <algorithm>

namespace pipescope {
namespace {
class WindowBubbles : public MainWindowTest {
protected:
    void open(const std::string& name, const SampleRun& run = {}) {
        MainWindowTest::open(name, run);
        ASSERT_FALSE(bubbles(Source::measured).empty());
    }

    const StepAnalysis& analysis() { return *window_.page()->model().analysis(); }
    const std::vector<Bubble>& bubbles(Source source) { return analysis().bubbles(source); }
    TimeAxisModel& axis() { return window_.page()->axis(); }
    BubblePanel& panel() { return window_.tables().bubbles(); }

    /// The largest idle bubble of the lane.
    Bubble largest(Source source, LaneId lane) {
        std::optional<Bubble> found;
        for (const Bubble& each : bubbles(source)) {
            if (each.lane == lane && !is_work(each.cause) && (!found || each.length() > found->length())) {
                found = each;
            }
        }
        return found.value_or(Bubble{});
    }

    /// A click with the mouse in the middle of a bubble.
    void click(TimelineView& view, const Bubble& bubble) {
        const QRectF rect = view.rectOf(bubble);
        ASSERT_GT(rect.width(), 2);
        QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, rect.center().toPoint());
    }

    void press(Qt::Key key) {
        window_.page()->focusTimeline();
        QTest::keyClick(QApplication::focusWidget(), key);
    }

    std::optional<Bubble> selected() {
        const std::optional<PartSelection>& part = axis().part();
        return part && part->kind == PartSelection::Kind::bubble ? std::optional(part->bubble) : std::nullopt;
    }
};

TEST_F(WindowBubbles, AreSelectedByAClickOnAGapWithCausesShownOrNot) {
    open("gap.sqlite");
    for (const bool shown : {true, false}) {
        MarkChoice choice = window_.page()->model().choice();
        choice.causes = shown;
        window_.page()->model().setChoice(choice);
        axis().select(std::nullopt);
        const Bubble bubble = largest(Source::measured, LaneId{0});
        const QImage before = measured().viewport()->grab().toImage();
        click(measured(), bubble);
        ASSERT_EQ(selected(), bubble) << shown;
        EXPECT_FALSE(axis().selection());
        ASSERT_TRUE(axis().part()->twin);
        EXPECT_EQ(axis().part()->twin->lane, bubble.lane);
        // It is framed, and its culprit has an arrow to the task that waited.
        const QRectF rect = measured().rectOf(bubble);
        const QImage after = measured().viewport()->grab().toImage();
        const QPoint edge(static_cast<int>(rect.center().x()), static_cast<int>(rect.top()) - 1);
        EXPECT_NE(before.pixel(edge), after.pixel(edge));
        ASSERT_NE(bubble.culprit, kNoTask);
        const StepGraph& tasks = *analysis().tasks(Source::measured);
        ASSERT_EQ(measured().marks()->arrows.size(), 1U);
        EXPECT_EQ(measured().marks()->arrows[0].first, tasks.task(bubble.culprit).slice);
        EXPECT_EQ(measured().marks()->arrows[0].second, tasks.task(bubble.next).slice);
        EXPECT_TRUE(measured().accessibleDescription().contains(nameOf(bubble.cause)));
    }
}

TEST_F(WindowBubbles, OfAnotherStepShowThatStep) {
    open("other.sqlite");
    window_.page()->model().selectStep(2);
    const Bubble there = largest(Source::measured, LaneId{0});
    window_.page()->model().selectStep(0);
    axis().showAll();
    click(measured(), there);
    EXPECT_EQ(window_.page()->model().step(), 2);
    EXPECT_EQ(selected(), there);
}

TEST_F(WindowBubbles, AreWalkedFittedAndClearedByKey) {
    SampleRun run;
    run.partitions = 3;
    open("walk.sqlite", run);
    activate();
    const Bubble first = largest(Source::measured, LaneId{1});
    window_.page()->model().select(Source::measured, first);
    press(Qt::Key_F);
    const double width = static_cast<double>(axis().window().length);
    EXPECT_LT(width, 20.0 * static_cast<double>(first.length()));
    const std::vector<Bubble> all = bubbles(Source::measured);
    const auto here = std::find(all.begin(), all.end(), first) - all.begin();
    press(Qt::Key_Period);
    const Bubble after = selected().value_or(Bubble{});
    if (here + 1 < std::ssize(all) && all[static_cast<std::size_t>(here) + 1].lane == first.lane) {
        EXPECT_EQ(after, all[static_cast<std::size_t>(here) + 1]);
        press(Qt::Key_Comma);
    }
    EXPECT_EQ(selected(), first);
    // N visits the rest of this cause in order of time, whatever the lane; P goes back.
    std::int64_t time = first.start;
    int steps = 0;
    for (std::optional<Bubble> before = first;; ++steps) {
        press(Qt::Key_N);
        if (selected() == before) {
            break;
        }
        before = selected();
        ASSERT_TRUE(before);
        EXPECT_EQ(before->cause, first.cause);
        EXPECT_GE(before->start, time);
        time = before->start;
    }
    for (; steps > 0; --steps) {
        press(Qt::Key_P);
    }
    EXPECT_EQ(selected(), first);
    press(Qt::Key_Escape);
    EXPECT_FALSE(axis().part());
    EXPECT_TRUE(window_.tables().selection().facts().isEmpty());
}

TEST_F(WindowBubbles, AreListedAndARowZoomsThere) {
    open("list.sqlite");
    window_.findChild<QDockWidget*>(QStringLiteral("bubbles"))->raise();
    const QAbstractItemModel& rows = *panel().list().table().model();
    ASSERT_EQ(static_cast<std::size_t>(rows.rowCount()),
              bubbles(Source::measured).size() + bubbles(Source::simulated).size());
    // Sorted by length, the longest comes first.
    panel().list().table().sortByColumn(BubbleTableModel::length, Qt::DescendingOrder);
    std::int64_t longest = 0;
    for (const Source source : {Source::measured, Source::simulated}) {
        for (const Bubble& each : bubbles(source)) {
            longest = std::max(longest, each.length());
        }
    }
    EXPECT_EQ(rows.index(0, BubbleTableModel::length).data(kExportRole).toLongLong(), longest);
    axis().showAll();
    Q_EMIT panel().list().table().clicked(rows.index(0, 0));
    ASSERT_TRUE(selected());
    EXPECT_EQ(selected()->length(), longest);
    TimelineView& view = axis().part()->source == Source::measured ? measured() : simulated();
    EXPECT_GT(view.rectOf(*selected()).width(), view.lanesRect().width() / 5);
    EXPECT_EQ(panel().list().table().currentIndex().row(), 0);
}

TEST_F(WindowBubbles, OfOneTimelineHaveItsColumnsOnly) {
    open("both.sqlite");
    EXPECT_FALSE(panel().list().table().isColumnHidden(BubbleTableModel::timeline));
    writeSimulatedTrace(temporaryPath("alone.sqlite"), {});
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(temporaryPath("alone.sqlite").string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    window_.finishWork();
    EXPECT_TRUE(panel().list().table().isColumnHidden(BubbleTableModel::timeline));
    const QTableView* sums = nullptr;
    for (const QTableView* table : panel().findChildren<QTableView*>()) {
        sums = table != &panel().list().table() ? table : sums;
    }
    ASSERT_NE(sums, nullptr);
    EXPECT_TRUE(sums->isColumnHidden(1) && sums->isColumnHidden(2)) << "nothing was measured";
    EXPECT_FALSE(sums->isColumnHidden(3) || sums->isColumnHidden(4));
}

TEST_F(WindowBubbles, SumToTheFractionShownElsewhere) {
    open("sums.sqlite");
    const QAbstractItemModel& sums = panel().sumModel();
    ASSERT_GT(sums.rowCount(), 2);
    const TraceDocument& document = *window_.files().document();
    const double measuredBubble = document.measured->step(window_.page()->model().step())->statistics.bubble_fraction;
    EXPECT_NEAR(sums.index(0, 2).data(kExportRole).toDouble(), measuredBubble, 1e-9);
    EXPECT_NEAR(sums.index(0, 4).data(kExportRole).toDouble(),
                document.simulated->steps().front().statistics.bubble_fraction, 1e-9);
    double parts = 0;
    for (int row = 1; row < sums.rowCount(); ++row) {
        parts += sums.index(row, 2).data(kExportRole).toDouble();
    }
    EXPECT_NEAR(parts, measuredBubble, 1e-9);
    // A cause lists its bubbles.
    const int all = panel().list().rows().rowCount();
    Q_EMIT panel().sums().clicked(panel().sums().model()->index(1, 0));
    EXPECT_LT(panel().list().rows().rowCount(), all);
    EXPECT_GT(panel().list().rows().rowCount(), 0);
    Q_EMIT panel().sums().clicked(panel().sums().model()->index(0, 0));
    EXPECT_EQ(panel().list().rows().rowCount(), all);
}

const FactRow* rowNamed(const SelectionFacts& facts, const QString& heading, const QString& name) {
    for (const FactSection& section : facts.sections) {
        for (const FactRow& row : section.rows) {
            if (section.heading.startsWith(heading) && row.name.startsWith(name)) {
                return &row;
            }
        }
    }
    return nullptr;
}

TEST_F(WindowBubbles, AreDescribedByTheInspectorAsAreTasksAndLanes) {
    open("inspector.sqlite");
    SelectionPanel& inspector = window_.tables().selection();
    EXPECT_TRUE(inspector.facts().isEmpty());
    const Bubble bubble = largest(Source::measured, LaneId{0});
    click(measured(), bubble);
    const FactRow* length = rowNamed(inspector.facts(), QStringLiteral("In the step"), QStringLiteral("Length"));
    ASSERT_NE(length, nullptr);
    EXPECT_EQ(length->measured, formatDuration(bubble.length()));
    EXPECT_FALSE(length->simulated.isEmpty());
    EXPECT_TRUE(inspector.facts().text.contains(QStringLiteral("Lane 0 waits")));
    ASSERT_GT(inspector.table().topLevelItemCount(), 3);
    // A task: its layers sum to its time, and its wait is the bubble before it.
    window_.page()->model().select(Source::measured, analysis().tasks(Source::measured)->task(bubble.next).slice);
    const SelectionFacts& task = inspector.facts();
    EXPECT_NE(rowNamed(task, QStringLiteral("Time"), QStringLiteral("Duration")), nullptr);
    const FactRow* sum = rowNamed(task, QStringLiteral("Layers"), QStringLiteral("Sum"));
    ASSERT_NE(sum, nullptr);
    EXPECT_FALSE(sum->simulated.isEmpty());
    EXPECT_TRUE(sum->measured.isEmpty() && sum->difference.isEmpty()) << "no second time of the task";
    const FactRow* wait = rowNamed(task, QStringLiteral("Its lane before it"), nameOf(bubble.cause));
    ASSERT_NE(wait, nullptr);
    EXPECT_EQ(wait->measured, formatDuration(bubble.length()));
    // A lane, by its name.
    const QRect lane = measured().laneRect(LaneId{1});
    QTest::mouseClick(measured().viewport(), Qt::LeftButton, {}, QPoint(10, lane.top() + 4));
    ASSERT_TRUE(axis().part());
    EXPECT_EQ(axis().part()->kind, PartSelection::Kind::lane);
    const SelectionFacts& facts = inspector.facts();
    EXPECT_NE(rowNamed(facts, QStringLiteral("In the step"), QStringLiteral("Utilisation")), nullptr);
    EXPECT_NE(rowNamed(facts, QStringLiteral("Bubble by cause"), {}), nullptr);
    EXPECT_NE(rowNamed(facts, QStringLiteral("Memory"), QStringLiteral("Peak")), nullptr);
    QApplication::clipboard()->clear();
    QTest::keySequence(&inspector.table(), QKeySequence::Copy);
    EXPECT_TRUE(QApplication::clipboard()->text().contains(QStringLiteral("Utilisation\t")));
}

TEST_F(WindowBubbles, OfACopyLeadToItsLink) {
    open("link.sqlite");
    const std::shared_ptr<const TraceDocument> document = window_.page()->document();
    Scenario slow = *recordedScenario(*document);
    slow.options.hardware.link = {50e6, 0};
    window_.page()->model().showScenario(simulateScenario(*document->run.profile, slow));
    settle();
    const auto copy = std::find_if(bubbles(Source::simulated).begin(), bubbles(Source::simulated).end(),
                                   [](const Bubble& each) { return each.cause == BubbleCause::copy; });
    ASSERT_NE(copy, bubbles(Source::simulated).end());
    const Bubble bubble = *copy;
    click(simulated(), bubble);
    SelectionPanel& inspector = window_.tables().selection();
    EXPECT_TRUE(inspector.facts().text.contains(QStringLiteral("MB/s"))) << inspector.facts().text.toStdString();
    window_.page()->model().select(Source::simulated, analysis().tasks(Source::simulated)->task(bubble.culprit).slice);
    const FactRow* rate = rowNamed(inspector.facts(), QStringLiteral("Link from"), QStringLiteral("Mean rate while"));
    ASSERT_NE(rate, nullptr);
    EXPECT_TRUE(rate->simulated.startsWith(QStringLiteral("50.0"))) << rate->simulated.toStdString();
    // The space beside the copies of the lane that sends.
    const QRectF thin = simulated().rectOf(analysis().tasks(Source::simulated)->task(bubble.culprit).slice);
    QTest::mouseClick(simulated().viewport(), Qt::LeftButton, {}, QPoint(10, static_cast<int>(thin.center().y())));
    ASSERT_TRUE(axis().part());
    EXPECT_EQ(axis().part()->kind, PartSelection::Kind::links);
    EXPECT_NE(rowNamed(inspector.facts(), QStringLiteral("Link from"), QStringLiteral("Busy share")), nullptr);
    // The selection of a bubble survives another scenario if its lane still waits for the same task.
    window_.page()->model().select(Source::simulated, bubble);
    slow.options.hardware.link = {60e6, 0};
    window_.page()->model().showScenario(simulateScenario(*document->run.profile, slow));
    ASSERT_TRUE(selected());
    EXPECT_EQ(selected()->lane, bubble.lane);
    EXPECT_LT(selected()->length(), bubble.length());
    // One that is gone, as from a list that is not yet made again, is not selected.
    window_.page()->model().select(Source::simulated, bubble);
    EXPECT_FALSE(selected());
}

TEST_F(WindowBubbles, AreSummedByTheInspectorWhileNothingIsSelected) {
    open("overview.sqlite");
    const SelectionPanel& inspector = window_.tables().selection();
    const SelectionFacts& facts = inspector.facts();
    EXPECT_TRUE(facts.isEmpty()) << "nothing is selected";
    const std::int32_t step = window_.page()->model().step();
    EXPECT_EQ(facts.title, QStringLiteral("Step %1").arg(step));
    const FactRow* time = rowNamed(facts, QStringLiteral("Whole step"), QStringLiteral("Step time"));
    ASSERT_NE(time, nullptr);
    const auto shown = [&](std::int32_t of) {
        return formatDuration(window_.files().document()->measured->step(of)->statistics.step_time().count());
    };
    EXPECT_EQ(time->measured, shown(step));
    EXPECT_FALSE(time->simulated.isEmpty());
    EXPECT_NE(rowNamed(facts, QStringLiteral("Rates"), QStringLiteral("Samples/s")), nullptr);
    EXPECT_NE(rowNamed(facts, QStringLiteral("Lanes"), QStringLiteral("Busiest")), nullptr);
    const std::int32_t other = step == 1 ? 2 : 1;
    window_.page()->model().selectStep(other);
    EXPECT_EQ(inspector.facts().title, QStringLiteral("Step %1").arg(other));
    EXPECT_EQ(rowNamed(inspector.facts(), QStringLiteral("Whole step"), QStringLiteral("Step time"))->measured,
              shown(other));
}

TEST_F(WindowBubbles, BringTheSelectionToTheFrontWhenClicked) {
    window_.resize(1600, 900);
    open("front.sqlite");
    auto* selection = window_.findChild<QDockWidget*>(QStringLiteral("details"));
    auto* whatIf = window_.findChild<QDockWidget*>(QStringLiteral("whatIf"));
    ASSERT_TRUE(selection != nullptr && whatIf != nullptr);
    whatIf->show();
    whatIf->raise();
    settle();
    ASSERT_TRUE(selection->visibleRegion().isEmpty());
    click(measured(), largest(Source::measured, LaneId{0}));
    settle();
    EXPECT_FALSE(selection->visibleRegion().isEmpty());
    selection->hide();
    click(measured(), largest(Source::measured, LaneId{1}));
    EXPECT_TRUE(selection->isHidden()) << "a panel that was closed stays closed";
}
}  // namespace
}  // namespace pipescope
