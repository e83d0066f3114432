#include "gui/style/legend.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QComboBox>
#include <QHelpEvent>
#include <QToolTip>

namespace pipescope {
namespace {
class WindowLegend : public MainWindowTest {
protected:
    Legend& legend() { return *window_.page()->findChild<Legend*>(); }
    QPoint place(const QString& name) {
        for (const auto& [each, rect] : legend().places()) {
            if (each == name) {
                return rect.center();
            }
        }
        ADD_FAILURE() << name.toStdString();
        return {};
    }
    void click(const QString& name, Qt::KeyboardModifiers modifiers = {}) {
        QTest::mouseClick(&legend(), Qt::LeftButton, modifiers, place(name));
        settle();
    }
    /// Colour in the middle of the bar, beside its label.
    QColor colorOf(TimelineView& view, SliceRef slice) {
        const QRectF rect = view.rectOf(slice);
        return pixel(view, QPointF(rect.left() + 4, rect.top() + 4).toPoint());
    }
    const TaskKey forward_{1, TaskKind::forward, 0, 1, -1};
    const QString kForward = QStringLiteral("F forward");
};

TEST_F(WindowLegend, HidesAKindInBothTimelinesAndShowsItAgain) {
    open("legend.sqlite");
    const SliceRef measuredTask = slice(Source::measured, forward_);
    const SliceRef simulatedTask = slice(Source::simulated, {0, TaskKind::forward, 0, 1, -1});
    window_.page()->navigation().fitSelection();
    const QColor shown = colorOf(measured(), measuredTask);
    EXPECT_EQ(shown, styleOf(TaskKind::forward).color);
    const QPoint inside = measured().rectOf(measuredTask).center().toPoint();
    EXPECT_EQ(measured().sliceAt(inside), measuredTask);
    click(kForward);
    EXPECT_NE(colorOf(measured(), measuredTask), shown);
    EXPECT_NE(colorOf(simulated(), simulatedTask), shown);
    EXPECT_EQ(measured().sliceAt(inside), std::nullopt) << "what is hidden cannot be picked";
    EXPECT_TRUE(legend().accessibleDescription().contains(QStringLiteral("F forward (hidden)")));
    const QPoint backward = measured().rectOf(slice(Source::measured, task_)).center().toPoint();
    EXPECT_NE(measured().sliceAt(backward), std::nullopt);
    click(kForward);
    EXPECT_EQ(colorOf(measured(), measuredTask), shown);
}

TEST_F(WindowLegend, ExplainsHowBarsNameThePartitionsOfALaneWithSeveral) {
    SampleRun run;
    run.partitions = 4;
    run.lanes = 2;
    run.chunks = 4;
    open("interleaved.sqlite", run);
    const auto names = [&] {
        QStringList all;
        for (const auto& [name, place] : legend().places()) {
            all << name;
        }
        return all;
    };
    const QString partitions = QStringLiteral("2F0: F0 on partition 2; darker top: later partition");
    EXPECT_TRUE(names().contains(partitions)) << names().join(QLatin1Char('|')).toStdString();
    MarkChoice choice = window_.page()->model().choice();
    choice.causes = false;
    window_.page()->model().setChoice(choice);
    EXPECT_TRUE(names().contains(QStringLiteral("bubble")));
    choice.mode = CompareMode::difference;
    window_.page()->model().setChoice(choice);
    EXPECT_FALSE(names().contains(partitions)) << "bars have the colour of their lateness";
    open("one_each.sqlite");
    EXPECT_FALSE(names().contains(partitions));
}

TEST_F(WindowLegend, ListsOnlyCausesOfTheTimelinesOnScreen) {
    open("causes.sqlite");
    // As if the recording had no contention and the simulation had some.
    auto swapped = std::make_shared<TraceDocument>(*window_.page()->document());
    Timeline clean = simulate(sampleProfile({}), sampleOptions({})).timeline;
    clean.source = Source::measured;
    Timeline late = sampleTimeline({.steps = 1});
    late.source = Source::simulated;
    swapped->measured = std::make_shared<const TimelineStore>(clean);
    swapped->simulated = std::make_shared<const TimelineStore>(late);
    window_.files().setDocument(swapped);
    settle();
    const QString cause = nameOf(BubbleCause::contention);
    const auto lists = [&] {
        return std::ranges::any_of(legend().places(), [&](const auto& each) { return each.first == cause; });
    };
    ASSERT_TRUE(lists()) << legend().accessibleDescription().toStdString();
    MarkChoice choice = window_.page()->model().choice();
    choice.mode = CompareMode::difference;
    window_.page()->model().setChoice(choice);
    EXPECT_FALSE(lists()) << legend().accessibleDescription().toStdString();
}

TEST_F(WindowLegend, ListsOnlyTheDifferencesThatOccur) {
    open("lateness.sqlite");
    MarkChoice choice = window_.page()->model().choice();
    choice.mode = CompareMode::difference;
    window_.page()->model().setChoice(choice);
    const std::vector<TaskPair>& pairs = window_.page()->model().analysis()->matching().pairs;
    const std::int64_t scale = differenceScaleOf(pairs);
    const std::bitset<kNumLateness> occurs = latenessIn(pairs, scale);
    ASSERT_FALSE(occurs.all());
    QStringList names;
    for (const auto& [name, place] : legend().places()) {
        names << name;
    }
    for (std::size_t i = 0; i < kNumLateness; ++i) {
        EXPECT_EQ(names.contains(describe(static_cast<Lateness>(i), scale, false)), occurs.test(i)) << i;
    }
}

TEST_F(WindowLegend, ShowsOneKindAloneAndAllAgain) {
    open("legend.sqlite");
    click(kForward, Qt::ShiftModifier);
    const KindSet hidden = window_.page()->model().choice().hiddenKinds;
    EXPECT_FALSE(contains(hidden, TaskKind::forward));
    EXPECT_EQ(hidden.count(), hidden.size() - 1);
    click(kForward, Qt::ShiftModifier);
    EXPECT_TRUE(window_.page()->model().choice().hiddenKinds.none());
    click(kForward);
    activate();
    window_.page()->focusTimeline();
    QTest::keyClick(measured().viewport(), Qt::Key_H);
    EXPECT_TRUE(window_.page()->model().choice().hiddenKinds.none());
}

TEST_F(WindowLegend, HidesTheShadeOfACauseOfBubbles) {
    open("legend.sqlite");
    const QString cause = nameOf(BubbleCause::previous_partition);
    ASSERT_TRUE(legend().accessibleDescription().contains(cause));
    click(cause);
    EXPECT_TRUE(measured().marks()->hides(BubbleCause::previous_partition));
    EXPECT_FALSE(measured().marks()->hides(BubbleCause::next_partition));
    EXPECT_TRUE(legend().accessibleDescription().contains(cause + QStringLiteral(" (hidden)")));
    click(cause);
    EXPECT_FALSE(measured().marks()->hides(BubbleCause::previous_partition));
}

TEST_F(WindowLegend, KeepsItsFilterWhileTheComparisonChanges) {
    open("legend.sqlite");
    click(kForward);
    QTest::keyClick(measured().viewport(), Qt::Key_2);
    for (QComboBox* box : window_.page()->findChildren<QComboBox*>()) {
        box->setCurrentIndex(0);
    }
    EXPECT_TRUE(contains(window_.page()->model().choice().hiddenKinds, TaskKind::forward));
}

TEST_F(WindowLegend, IsReachedWithTheKeyboard) {
    open("legend.sqlite");
    legend().setFocus();
    QTest::keyClick(&legend(), Qt::Key_Right);
    QTest::keyClick(&legend(), Qt::Key_Left);
    QTest::keyClick(&legend(), Qt::Key_Space);
    EXPECT_TRUE(contains(window_.page()->model().choice().hiddenKinds, TaskKind::forward));
    QHelpEvent help(QEvent::ToolTip, place(kForward), legend().mapToGlobal(place(kForward)));
    QApplication::sendEvent(&legend(), &help);
    EXPECT_TRUE(QToolTip::text().startsWith(QStringLiteral("Click to show: F forward")));
}
}  // namespace
}  // namespace pipescope
