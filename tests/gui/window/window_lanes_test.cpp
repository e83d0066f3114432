#include "tests/gui/window/main_window_fixture.h"

#include "gui/timeline/kernel_store.h"
#include "gui/window/lane_actions.h"
#include "gui/window/session_state.h"
#include "trace/store/trace_writer.h"

#include <QMouseEvent>
#include <QScrollBar>
#include <QSettings>

namespace pipescope {
namespace {
class WindowLanes : public MainWindowTest {
protected:
    void SetUp() override {
        MainWindowTest::SetUp();
        SampleRun run;
        run.partitions = 6;
        open("lanes.sqlite", run);
    }

    DocumentPage& page() { return *window_.page(); }
    PageModel& model() { return page().model(); }
    void select(int lane) { model().selectLane(Source::measured, LaneId{lane}); }
    QPoint nameOf(int lane) { return {20, measured().laneRect(LaneId{lane}).center().y()}; }
    int topOf(int lane) { return measured().laneRect(LaneId{lane}).top(); }
};

TEST_F(WindowLanes, MoveWhenTheirNameIsDragged) {
    QTest::mousePress(measured().viewport(), Qt::LeftButton, {}, nameOf(0));
    QTest::mouseMove(measured().viewport(), nameOf(1));
    QTest::mouseMove(measured().viewport(), nameOf(3));
    QTest::mouseRelease(measured().viewport(), Qt::LeftButton, {}, nameOf(3));
    EXPECT_GT(topOf(0), topOf(3));
    EXPECT_LT(topOf(0), topOf(4));
    EXPECT_EQ(simulated().laneRect(LaneId{0}).top(), topOf(0)) << "both timelines have the same order";
    EXPECT_FALSE(page().axis().part()) << "a drag selects nothing";
    QTest::mouseClick(measured().viewport(), Qt::LeftButton, {}, nameOf(2));
    ASSERT_TRUE(page().axis().part());
    EXPECT_EQ(page().axis().part()->lane, LaneId{2});
}

TEST_F(WindowLanes, StayWhereTheyAreIfADragIsTakenBack) {
    activate();
    const int top = topOf(0);
    measured().setFocus();
    QTest::mousePress(measured().viewport(), Qt::LeftButton, {}, nameOf(0));
    QTest::mouseMove(measured().viewport(), nameOf(1));
    QTest::mouseMove(measured().viewport(), nameOf(3));
    QTest::mouseClick(measured().viewport(), Qt::MiddleButton, {}, nameOf(3));
    EXPECT_EQ(topOf(0), top) << "the left button still holds it";
    QTest::keyClick(&measured(), Qt::Key_Escape);
    QTest::mouseMove(measured().viewport(), nameOf(2));
    QTest::mouseRelease(measured().viewport(), Qt::LeftButton, {}, nameOf(2));
    EXPECT_EQ(topOf(0), top);
    EXPECT_FALSE(page().axis().part()) << "nor is it a click";
}

TEST_F(WindowLanes, GrowAndShrinkWithTheWheelAndFitAgain) {
    const int height = measured().rowHeight();
    wheel(measured(), {300, 60}, 120, Qt::ControlModifier | Qt::AltModifier);
    EXPECT_GT(measured().rowHeight(), height);
    wheel(measured(), {300, 60}, -120, Qt::ControlModifier | Qt::AltModifier);
    wheel(measured(), {300, 60}, -120, Qt::ControlModifier | Qt::AltModifier);
    EXPECT_LT(measured().rowHeight(), height);
    EXPECT_EQ(simulated().rowHeight(), measured().rowHeight());
    page().lanes().fitAll();
    EXPECT_EQ(measured().rowHeight(), height);
}

TEST_F(WindowLanes, HaveEquallyHighRowsInBothTimelinesWhateverOneHasBeside) {
    // Kernels below a lane and a note below the ruler are in the measured timeline alone. Two tasks of lane 0 overlap.
    auto more = std::make_shared<TraceDocument>(*page().document());
    Timeline timeline = sampleTimeline([] {
        SampleRun run;
        run.partitions = 6;
        return run;
    }());
    Slice beside = timeline.slices.front();
    beside.key.micro_batch = 9;
    timeline.slices.insert(timeline.slices.begin() + 1, beside);
    more->measured = std::make_shared<const TimelineStore>(timeline);
    const Slice& first = timeline.slices.front();
    KernelStoreBuilder kernels(timeline.lanes);
    kernels.add({"gemm", first.key, first.lane, first.start.count(), first.end.count(), 0});
    more->kernels = std::make_shared<const KernelStore>(kernels.finish());
    window_.files().setDocument(more);
    for (const QSize& size : {QSize(1400, 900), QSize(1400, 700), QSize(1800, 1400)}) {
        window_.resize(size);
        settle();
        page().views().shareHeight();
        settle();
        EXPECT_EQ(measured().rowHeight(), simulated().rowHeight()) << size.height();
        EXPECT_EQ(measured().visibleLayout().compact, simulated().visibleLayout().compact) << size.height();
    }
    const int before = measured().rowHeight();
    page().notes().annotate({page().axis().origin(), page().axis().origin() + 1'000'000}, QStringLiteral("a note"));
    settle();
    EXPECT_EQ(measured().rowHeight(), simulated().rowHeight());
    EXPECT_LE(measured().rowHeight(), before);
    QList<int> sizes = page().views().sizes();
    sizes[0] += 100;  // as if the user dragged the line between them
    sizes[1] -= 100;
    page().views().setSizes(sizes);
    settle();
    EXPECT_EQ(measured().rowHeight(), simulated().rowHeight());
    MarkChoice choice = model().choice();
    choice.mode = CompareMode::overlay;
    model().setChoice(choice);
    settle();
    EXPECT_GT(measured().rowHeight(), before) << "alone, it takes what there is";
    choice.mode = CompareMode::side_by_side;
    model().setChoice(choice);
    settle();
    EXPECT_EQ(measured().rowHeight(), simulated().rowHeight());
}

TEST_F(WindowLanes, StayPinnedAtTheTop) {
    select(4);
    page().lanes().togglePinned();
    for (int i = 0; i < 8; ++i) {
        page().lanes().changeHeight(1);
    }
    settle();
    ASSERT_TRUE(measured().overflows());
    const int top = topOf(4);
    EXPECT_LT(top, topOf(0));
    measured().verticalScrollBar()->setValue(measured().verticalScrollBar()->maximum());
    EXPECT_EQ(topOf(4), top);
    page().lanes().togglePinned();
    EXPECT_TRUE(model().arrangement().pinned.empty());
}

TEST_F(WindowLanes, AreArrangedAsBeforeWhenTheFileIsOpenedAgain) {
    QSettings settings(QString::fromStdString(temporaryPath("lanes.ini").string()), QSettings::IniFormat);
    SessionState session(&settings);
    select(5);
    page().lanes().move(-2);
    page().lanes().toggleCollapsed();
    select(1);
    page().lanes().togglePinned();
    page().lanes().changeHeight(1);
    const LaneArrangement arranged = model().arrangement();
    session.savePage(page());
    page().lanes().reset();
    EXPECT_EQ(model().arrangement(), LaneArrangement());
    session.restorePage(page());
    EXPECT_EQ(model().arrangement(), arranged);
    EXPECT_EQ(arranged.collapsed, std::set<LaneId>{LaneId{5}});
    EXPECT_EQ(arranged.pinned, std::set<LaneId>{LaneId{1}});
}

TEST_F(MainWindowTest, GroupsLanesOfSeveralProcessesUnderTheirNames) {
    const auto path = temporaryPath("processes.sqlite");
    SampleRun run;
    run.partitions = 4;
    Timeline timeline = sampleTimeline(run);
    for (int lane = 0; lane < 4; ++lane) {
        timeline.lanes[static_cast<std::size_t>(lane)].name =
            "lane " + std::to_string(lane) + (lane < 2 ? " (rank 0, host a)" : " (rank 1, host b)");
    }
    TraceWriter writer(path, IfExists::replace);
    writer.add_timeline(timeline);
    writer.close();
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    settle();
    window_.page()->lanes().toggleGrouping();
    const TimelineLayout open = measured().visibleLayout();
    ASSERT_EQ(open.groups.size(), 2U);
    EXPECT_EQ(open.groups[0].name, "rank 0, host a");
    const QPoint header(20, measured().lanesRect().top() + open.groups[1].header.top + 4);
    QTest::mouseClick(measured().viewport(), Qt::LeftButton, {}, header);
    EXPECT_EQ(measured().laneRect(LaneId{2}), measured().laneRect(LaneId{3})) << "one row for the group";
    EXPECT_NE(measured().laneRect(LaneId{0}), measured().laneRect(LaneId{1}));
    window_.page()->model().selectLane(Source::measured, LaneId{3});
    window_.page()->lanes().toggleOwnGroup();
    EXPECT_NE(measured().laneRect(LaneId{2}), measured().laneRect(LaneId{3}));
}
}  // namespace
}  // namespace pipescope
