#include "gui/timeline/timeline_marks.h"

#include "base/error.h"
#include "gui/style/elided_label.h"
#include "gui/style/task_style.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/step_spans.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/timeline_view.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QApplication>
#include <QHelpEvent>
#include <QSignalSpy>
#include <QTest>

#include <set>
#include <tuple>
#include <vector>

namespace pipescope {
namespace {
Slice markedSlice(TaskKind kind, int partition, int micro_batch, int start, int end) {
    return {{0, kind, partition, micro_batch, -1}, LaneId{partition}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

// lane 0: F0 0..200, idle, B0 600..1000;  lane 1: idle, F0 200..400, B0 400..600, idle
std::shared_ptr<const TimelineStore> sampleStore() {
    const Timeline timeline{
        Source::measured,
        {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
        {markedSlice(TaskKind::forward, 0, 0, 0, 200), markedSlice(TaskKind::forward, 1, 0, 200, 400),
         markedSlice(TaskKind::backward, 1, 0, 400, 600), markedSlice(TaskKind::backward, 0, 0, 600, 1000)}};
    return std::make_shared<const TimelineStore>(timeline);
}

class TimelineMarksTest : public testing::Test {
protected:
    TimelineMarksTest() : view_(Source::measured, axis_) {
        view_.resize(1080, 240);
        view_.setGutter(80);
        view_.setStore(store_);
        axis_.setTotal(store_->range());
        view_.show();
        QApplication::processEvents();
    }

    QImage draw() { return view_.grab().toImage(); }
    /// Colours of the lane's row between two times, without the edges.
    std::set<QRgb> colorsOf(const QImage& image, int lane, std::int64_t from, std::int64_t to) const {
        const StoredRow& row = store_->rows()[static_cast<std::size_t>(lane)];
        const QRectF any = view_.rectOf({static_cast<std::uint32_t>(lane), 0});
        std::set<QRgb> found;
        EXPECT_FALSE(row.start.empty());
        for (int x = static_cast<int>(view_.pixelAtTime(from)) + 2; x < static_cast<int>(view_.pixelAtTime(to)) - 2;
             ++x) {
            for (int y = static_cast<int>(any.top()) + 1; y < static_cast<int>(any.bottom()) - 1; ++y) {
                found.insert(image.pixel(x, y));
            }
        }
        return found;
    }

    const std::shared_ptr<const TimelineStore> store_ = sampleStore();
    const TimelineColors colors_ = timelineColors(QApplication::palette());
    TimeAxisModel axis_;
    TimelineView view_;
};

TEST_F(TimelineMarksTest, ShadesEachPieceOfTheBubbleByItsCause) {
    auto marks = std::make_shared<TimelineMarks>();
    marks->bubbles = bubbles_of(stepGraphOf(*store_, 0));
    view_.setMarks(marks);
    const QImage image = draw();
    const auto colorOf = [&](BubbleCause cause) { return brushOf(cause, colors_).color().rgb(); };
    const std::set<QRgb> waits = colorsOf(image, 0, 200, 600);
    EXPECT_TRUE(waits.contains(colorOf(BubbleCause::next_partition)));
    EXPECT_FALSE(waits.contains(colorOf(BubbleCause::previous_partition)));
    EXPECT_TRUE(colorsOf(image, 1, 0, 200).contains(colorOf(BubbleCause::previous_partition)));
    EXPECT_TRUE(colorsOf(image, 1, 600, 1000).contains(colorOf(BubbleCause::finished)));
    EXPECT_FALSE(colorsOf(image, 0, 0, 200).contains(colorOf(BubbleCause::next_partition)));  // a task is none
}

TEST_F(TimelineMarksTest, DrawsATaskWithoutDurationAsATick) {
    Timeline timeline{Source::measured,
                      {{"lane 0", "cpu"}},
                      {markedSlice(TaskKind::forward, 0, 0, 0, 200), markedSlice(TaskKind::forward, 0, 1, 500, 500),
                       markedSlice(TaskKind::loss, 0, 0, 550, 550), markedSlice(TaskKind::backward, 0, 0, 700, 1000)}};
    const auto store = std::make_shared<const TimelineStore>(timeline);
    EXPECT_TRUE(store->rows()[0].drawn.test(static_cast<std::size_t>(TaskKind::forward)));
    EXPECT_FALSE(store->rows()[0].drawn.test(static_cast<std::size_t>(TaskKind::loss))) << "it is free";
    view_.setStore(store);
    auto marks = std::make_shared<TimelineMarks>();
    marks->bubbles = bubbles_of(stepGraphOf(*store, 0));  // one of them around the tick
    view_.setMarks(marks);
    const auto colourAt = [&](std::int64_t time) {
        const int y = static_cast<int>(view_.rectOf({0, 0}).center().y());
        return draw().pixel(static_cast<int>(std::floor(view_.pixelAtTime(time))), y);
    };
    EXPECT_EQ(colourAt(500), styleOf(TaskKind::forward).color.rgb());
    EXPECT_NE(colourAt(550), styleOf(TaskKind::loss).color.rgb());
    EXPECT_TRUE(
        view_.sliceAt({static_cast<int>(view_.pixelAtTime(500)), static_cast<int>(view_.rectOf({0, 0}).center().y())}))
        << "it can be selected";
    KindSet hidden;
    hidden.set(static_cast<std::size_t>(TaskKind::forward));
    view_.setHidden(hidden);
    EXPECT_NE(colourAt(500), styleOf(TaskKind::forward).color.rgb());
}

TEST_F(TimelineMarksTest, ColoursCopiesByTheTierOfTheirLink) {
    const auto copy = [](TaskKind kind, int partition, int lane, int start, int end) {
        return Slice{{0, kind, partition, 0, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0};
    };
    const Timeline timeline{
        Source::measured,
        {{"lane 0", "a"}, {"lane 1", "b"}, {"lane 2", "c"}},
        {markedSlice(TaskKind::forward, 0, 0, 0, 200), copy(TaskKind::copy_forward, 0, 0, 200, 500),
         markedSlice(TaskKind::forward, 1, 0, 500, 600), copy(TaskKind::copy_forward, 1, 1, 600, 900),
         markedSlice(TaskKind::forward, 2, 0, 900, 1000)}};
    const auto store = std::make_shared<const TimelineStore>(timeline);
    view_.setStore(store);
    auto marks = std::make_shared<TimelineMarks>();
    marks->linkTiers = {0, 2};
    view_.setMarks(marks);
    const QImage image = draw();
    for (const auto& [partition, tier] : {std::pair{0, 0}, std::pair{1, 2}}) {
        for (std::uint32_t row = 0; row < store->rows().size(); ++row) {
            const StoredRow& each = store->rows()[row];
            if (each.copies && each.lane == LaneId{partition}) {
                EXPECT_EQ(image.pixelColor(view_.rectOf({row, 0}).center().toPoint()), tierColor(tier));
            }
        }
    }
}

TEST_F(TimelineMarksTest, FindsTheBubbleUnderThePointer) {
    auto marks = std::make_shared<TimelineMarks>();
    marks->bubbles = bubbles_of(stepGraphOf(*store_, 0));
    view_.setMarks(marks);
    const int y = static_cast<int>(view_.rectOf({0, 0}).center().y());
    const auto at = [&](std::int64_t time) { return view_.bubbleAt({static_cast<int>(view_.pixelAtTime(time)), y}); };
    ASSERT_TRUE(at(400));
    EXPECT_EQ(at(400)->cause, BubbleCause::next_partition);
    EXPECT_EQ(at(400)->length(), 400);
    EXPECT_FALSE(at(100));  // a task
    QString asked;
    view_.setBubbleDescription([&](const Bubble& piece) { return asked = nameOf(piece.cause); });
    const QPoint pointer(static_cast<int>(view_.pixelAtTime(400)), y);
    QHelpEvent help(QEvent::ToolTip, pointer, view_.viewport()->mapToGlobal(pointer));
    QApplication::sendEvent(view_.viewport(), &help);
    EXPECT_EQ(asked, nameOf(BubbleCause::next_partition));
    auto plain = std::make_shared<TimelineMarks>(*marks);
    plain->shadesBubbles = false;
    view_.setMarks(plain);
    EXPECT_EQ(at(400), bubbles_of(stepGraphOf(*store_, 0)).front());
    EXPECT_FALSE(colorsOf(draw(), 0, 200, 600).contains(brushOf(BubbleCause::next_partition, colors_).color().rgb()));
}

TEST_F(TimelineMarksTest, TellsCausesApartWithoutTheirColour) {
    std::set<Qt::BrushStyle> patterns;
    std::set<QString> names;
    for (int cause = 0; cause < kNumBubbleCauses; ++cause) {
        patterns.insert(brushOf(static_cast<BubbleCause>(cause), colors_).style());
        names.insert(nameOf(static_cast<BubbleCause>(cause)));
    }
    EXPECT_EQ(patterns.size(), static_cast<std::size_t>(kNumBubbleCauses));
    EXPECT_EQ(names.size(), static_cast<std::size_t>(kNumBubbleCauses));
}

TEST_F(TimelineMarksTest, ColoursATaskByHowLateItEnded) {
    auto marks = std::make_shared<TimelineMarks>();
    marks->differences = {{{0, 0}, {0, 0}, {0, TaskKind::forward, 0, 0, -1}, 0, 0},
                          {{0, 1}, {0, 1}, {0, TaskKind::backward, 0, 0, -1}, 0, 90},
                          {{1, 0}, {1, 0}, {0, TaskKind::forward, 1, 0, -1}, 0, -30}};
    marks->differenceScale = 100;
    view_.setMarks(marks);
    const QImage image = draw();
    const auto colorOf = [&](Lateness lateness) { return styleOf(lateness, colors_).color.rgb(); };
    EXPECT_TRUE(colorsOf(image, 0, 0, 200).contains(colorOf(Lateness::as_simulated)));
    EXPECT_TRUE(colorsOf(image, 0, 600, 1000).contains(colorOf(Lateness::very_late)));
    EXPECT_FALSE(colorsOf(image, 0, 600, 1000).contains(styleOf(TaskKind::backward).color.rgb()));
    EXPECT_TRUE(colorsOf(image, 1, 200, 400).contains(colorOf(Lateness::early)));
}

TEST_F(TimelineMarksTest, VeilsTasksThatAreNotCompared) {
    // The blue of a backward is also that of a task much too early.
    const QRgb kind = styleOf(TaskKind::backward).color.rgb();
    EXPECT_TRUE(colorsOf(draw(), 1, 400, 600).contains(kind));
    auto marks = std::make_shared<TimelineMarks>();
    marks->differences = {{{0, 0}, {0, 0}, {0, TaskKind::forward, 0, 0, -1}, 0, 0}};
    marks->differenceScale = 100;
    view_.setMarks(marks);
    const std::set<QRgb> without = colorsOf(draw(), 1, 400, 600);
    EXPECT_FALSE(without.contains(kind));
    for (int lateness = 0; lateness < kNumLateness; ++lateness) {
        EXPECT_FALSE(without.contains(styleOf(static_cast<Lateness>(lateness), colors_).color.rgb())) << lateness;
    }
}

TEST_F(TimelineMarksTest, VeilsAllTasksIfNoneIsCompared) {
    auto marks = std::make_shared<TimelineMarks>();
    marks->fadesOthers = true;
    view_.setMarks(marks);
    EXPECT_FALSE(colorsOf(draw(), 1, 400, 600).contains(styleOf(TaskKind::backward).color.rgb()));
}

// The backward of lane 0 is of inputs only, if the step has one of weights.
TEST_F(TimelineMarksTest, NamesAndHidesAnInputHalfAsItself) {
    const auto drawn = [&](bool split, const KindSet& hidden) {
        Timeline timeline{
            Source::measured,
            {{"lane 0", "cpu"}},
            {markedSlice(TaskKind::forward, 0, 0, 0, 200), markedSlice(TaskKind::backward, 0, 0, 200, 700)}};
        if (split) {
            timeline.slices.push_back(markedSlice(TaskKind::backward_weight, 0, 0, 800, 1000));
        }
        view_.setStore(std::make_shared<const TimelineStore>(timeline));
        auto marks = std::make_shared<TimelineMarks>();
        marks->differences = {{{0, 1}, {0, 1}, {0, TaskKind::backward, 0, 0, -1}, 0, 90}};
        marks->differenceScale = 100;
        view_.setMarks(marks);
        view_.setHidden(hidden);
        return draw().copy(view_.rectOf({0, 1}).toRect().adjusted(2, 2, -2, -2));
    };
    const auto alone = [](TaskKind kind) { return KindSet{}.set(static_cast<std::size_t>(kind)); };
    EXPECT_NE(drawn(true, {}), drawn(false, {})) << "I0 and B0";
    EXPECT_EQ(drawn(true, {}), drawn(true, alone(TaskKind::backward)));
    EXPECT_NE(drawn(true, {}), drawn(true, alone(kInputHalf)));
}

TEST_F(TimelineMarksTest, TellsLatenessApartWithoutItsColour) {
    std::set<Qt::BrushStyle> patterns;
    for (int lateness = 0; lateness < kNumLateness; ++lateness) {
        patterns.insert(styleOf(static_cast<Lateness>(lateness), colors_).pattern);
    }
    EXPECT_EQ(patterns.size(), static_cast<std::size_t>(kNumLateness));
    auto marks = std::make_shared<TimelineMarks>();
    marks->differences = {{{0, 1}, {0, 1}, {0, TaskKind::backward, 0, 0, -1}, 0, 90}};
    marks->differenceScale = 100;
    view_.setMarks(marks);
    const std::set<QRgb> late = colorsOf(draw(), 0, 600, 1000);
    EXPECT_TRUE(late.contains(inkOn(styleOf(Lateness::very_late, colors_).color).rgb()));
}

TEST_F(TimelineMarksTest, WritesTheChangeOnABarThatIsWideEnough) {
    const auto drawn = [&](std::int64_t change) {
        auto marks = std::make_shared<TimelineMarks>();
        marks->differences = {{{0, 1}, {0, 1}, {0, TaskKind::backward, 0, 0, -1}, 0, change}};
        marks->differenceScale = 100;
        view_.setMarks(marks);
        return draw();
    };
    EXPECT_NE(drawn(90), drawn(80));  // both are very late: the number is what differs
    view_.resize(view_.width() / 8, view_.height());
    EXPECT_EQ(drawn(90), drawn(80));
}

TEST_F(TimelineMarksTest, OutlinesTheOtherTimelinesTasksWhereTheyStand) {
    const QImage before = draw();
    auto marks = std::make_shared<TimelineMarks>();
    marks->ghosts = store_;
    marks->ghostShift = 50;
    view_.setMarks(marks);
    const QImage after = draw();
    // The left edge of lane 1's F0, 50 ns later, is a line. The area between two edges does not change.
    const QRectF row = view_.rectOf({1, 0});
    const int y = static_cast<int>(row.bottom()) - 6;
    const int edge = static_cast<int>(std::floor(view_.pixelAtTime(250)));
    EXPECT_EQ(after.pixel(edge, y), colors_.selection.rgb());
    EXPECT_NE(before.pixel(edge, y), after.pixel(edge, y));
    EXPECT_EQ(before.pixel(edge, static_cast<int>(row.top()) + 3), after.pixel(edge, static_cast<int>(row.top()) + 3));
}

TEST_F(TimelineMarksTest, UnderlinesTheCriticalPath) {
    auto marks = std::make_shared<TimelineMarks>();
    marks->critical = {{0, 0}, {1, 0}};
    view_.setMarks(marks);
    const QImage image = draw();
    EXPECT_TRUE(colorsOf(image, 0, 0, 200).contains(colors_.critical.rgb()));
    EXPECT_TRUE(colorsOf(image, 1, 200, 400).contains(colors_.critical.rgb()));
    EXPECT_FALSE(colorsOf(image, 1, 400, 600).contains(colors_.critical.rgb()));
}

TEST_F(TimelineMarksTest, DrawsArrowsFromWhatWasWaitedForBesideTheLabels) {
    const QImage before = draw();
    const int label = view_.fontMetrics().height() / 2;
    const auto rows = [&](const QImage& image) {  // where labels are
        std::vector<QImage> middles;
        for (const std::uint32_t row : {0U, 1U}) {
            const QRectF bar = view_.rectOf({row, 0});
            middles.push_back(image.copy(80, static_cast<int>(bar.center().y()) - label, 1000, 2 * label));
        }
        return middles;
    };
    // Lane 1's backward to lane 0's, upwards; lane 0's forward to lane 1's, downwards; along lane 0, over the gap.
    for (const auto& [from, to, below] :
         {std::tuple{SliceRef{1, 1}, SliceRef{0, 1}, true}, std::tuple{SliceRef{0, 0}, SliceRef{1, 0}, false},
          std::tuple{SliceRef{0, 0}, SliceRef{0, 1}, true}}) {
        auto marks = std::make_shared<TimelineMarks>();
        marks->arrows = {{from, to}};
        view_.setMarks(marks);
        const QImage after = draw();
        const QRectF target = view_.rectOf(to);
        const int x = static_cast<int>(target.left()) - 3;
        const auto half = static_cast<int>(target.height() / 2);
        const int top = static_cast<int>(target.top()) + (below ? half : 0);
        EXPECT_NE(before.copy(x, top, 1, half), after.copy(x, top, 1, half)) << from.row << to.row;
        EXPECT_EQ(rows(before), rows(after)) << "labels stay readable: " << from.row << to.row;
    }
}

TEST_F(TimelineMarksTest, FadesOtherStepsWhereStepsOverlap) {
    Timeline timeline{
        Source::measured,
        {{"lane 0", "cpu"}},
        {markedSlice(TaskKind::forward, 0, 0, 0, 200), markedSlice(TaskKind::backward, 0, 0, 200, 500),
         markedSlice(TaskKind::forward, 0, 0, 500, 700), markedSlice(TaskKind::backward, 0, 0, 700, 1000)}};
    timeline.slices[2].key.step = timeline.slices[3].key.step = 1;
    view_.setStore(std::make_shared<const TimelineStore>(timeline));
    const auto shows = [&](std::int64_t from, std::int64_t to, TaskKind kind) {
        return colorsOf(draw(), 0, from, to).contains(styleOf(kind).color.rgb());
    };
    EXPECT_TRUE(shows(500, 700, TaskKind::forward));
    auto marks = std::make_shared<TimelineMarks>();
    marks->onlyStep = 0;
    view_.setMarks(marks);
    EXPECT_TRUE(shows(0, 200, TaskKind::forward));
    EXPECT_TRUE(shows(200, 500, TaskKind::backward));
    EXPECT_FALSE(shows(500, 700, TaskKind::forward));
    EXPECT_FALSE(shows(700, 1000, TaskKind::backward));
    auto next = std::make_shared<TimelineMarks>();
    next->onlyStep = 1;
    view_.setMarks(next);
    EXPECT_FALSE(shows(0, 200, TaskKind::forward));
    EXPECT_TRUE(shows(700, 1000, TaskKind::backward));
}

TEST_F(TimelineMarksTest, MeasuresARangeByShiftAndDrag) {
    QWidget* viewport = view_.viewport();
    const auto at = [&](std::int64_t time) {
        return QPoint(static_cast<int>(std::lround(view_.pixelAtTime(time))), 100);
    };
    const TimeWindow window = axis_.window();
    QTest::mousePress(viewport, Qt::LeftButton, Qt::ShiftModifier, at(100));
    QTest::mouseMove(viewport, at(300));
    QMouseEvent move(QEvent::MouseMove, at(500), viewport->mapToGlobal(at(500)), Qt::NoButton, Qt::LeftButton,
                     Qt::ShiftModifier);
    QApplication::sendEvent(viewport, &move);
    QTest::mouseRelease(viewport, Qt::LeftButton, Qt::ShiftModifier, at(500));
    ASSERT_TRUE(axis_.range());
    EXPECT_NEAR(axis_.range()->start, 100, 1);
    EXPECT_NEAR(axis_.range()->end, 500, 1);
    EXPECT_EQ(axis_.window(), window);  // nothing moved
    EXPECT_EQ(store_->busyIn(LaneId{0}, {100, 500}), 100);
    EXPECT_EQ(store_->busyIn(LaneId{1}, {100, 500}), 300);
}

TEST_F(TimelineMarksTest, MeasuresFromEdgeToEdgeOfTheTasksBelowThePointer) {
    QWidget* viewport = view_.viewport();
    const SliceRef first{0, 0};
    const Slice slice = store_->slice(first);
    const QRectF bar = view_.rectOf(first);
    const int y = static_cast<int>(bar.center().y());
    const QPoint from(static_cast<int>(bar.left()) + 3, y);
    const QPoint to(static_cast<int>(bar.right()) - 3, y);
    ASSERT_GT(to.x() - from.x(), 10);
    ASSERT_NE(view_.timeAtPixel(from.x()), slice.start.count());
    QTest::mousePress(viewport, Qt::LeftButton, Qt::ShiftModifier, from);
    QTest::mouseMove(viewport, to);
    QMouseEvent move(QEvent::MouseMove, to, viewport->mapToGlobal(to), Qt::NoButton, Qt::LeftButton, Qt::ShiftModifier);
    QApplication::sendEvent(viewport, &move);
    QTest::mouseRelease(viewport, Qt::LeftButton, Qt::ShiftModifier, to);
    EXPECT_EQ(axis_.range(), (TimeRange{slice.start.count(), slice.end.count()}));
}

TEST_F(TimelineMarksTest, MeasuresARangeByKeyboard) {
    axis_.setCursor(700);
    QTest::keyClick(&view_, Qt::Key_R);
    axis_.setCursor(300);
    QTest::keyClick(&view_, Qt::Key_R);
    EXPECT_EQ(axis_.range(), (TimeRange{300, 700}));
    axis_.setCursor(10);
    QTest::keyClick(&view_, Qt::Key_R);  // a new range begins
    EXPECT_EQ(axis_.range(), (TimeRange{10, 10}));
}

TEST(TimelinePane, KeepsTheCriticalPathsFiguresWhereRoomIsShort) {
    TimeAxisModel axis;
    TimelinePane pane(Source::measured, axis);
    const QString step = QStringLiteral("step time 10 ms");
    const QString path = QStringLiteral("critical path 10 ms: 6 ms computing");
    const QStringList before{QStringLiteral("run.sqlite"), QStringLiteral("a model"), step};
    const QString rate = QStringLiteral("12 samples/s");
    pane.setFacts((before + QStringList{rate}).join(kPartSeparator), path);
    auto* label = pane.findChild<ElidedLabel*>();
    EXPECT_EQ(label->text(), (before + QStringList{path, rate}).join(kPartSeparator));
    const auto room = [&](const QString& text) { label->resize(label->fontMetrics().horizontalAdvance(text), 20); };
    room((before + QStringList{path}).join(kPartSeparator));
    EXPECT_EQ(label->shownText(), (before + QStringList{path}).join(kPartSeparator));
    room(step + kPartSeparator + path);
    EXPECT_EQ(label->shownText(), step + kPartSeparator + path);
    room(path);
    EXPECT_EQ(label->shownText(), path);
}

TEST(CompareMode, IsNamedOnTheCommandLine) {
    for (const CompareMode mode : {CompareMode::side_by_side, CompareMode::overlay, CompareMode::difference}) {
        EXPECT_EQ(parseCompareMode(nameOf(mode)), mode);
    }
    EXPECT_THAT(thrown<UsageError>([] { parseCompareMode(QStringLiteral("sideways")); }),
                testing::AllOf(testing::HasSubstr("sideways"), testing::HasSubstr("overlay")));
}

TEST(Alignment, OfTheSelectedTaskIsNeitherAcceptedNorOfferedOnTheCommandLine) {
    for (const Alignment alignment : {Alignment::first_task, Alignment::step}) {
        EXPECT_EQ(parseAlignment(nameOf(alignment)), alignment);
    }
    for (const char* name : {"task", "sideways"}) {
        EXPECT_THAT(thrown<UsageError>([&] { parseAlignment(QLatin1String(name)); }),
                    testing::EndsWith("choose one of first-task, step"));
    }
}

TEST(Lateness, GrowsWithTheChangeAndKnowsItsScale) {
    EXPECT_EQ(latenessOf(0, 1000), Lateness::as_simulated);
    EXPECT_EQ(latenessOf(100, 1000), Lateness::as_simulated);
    EXPECT_EQ(latenessOf(101, 1000), Lateness::late);
    EXPECT_EQ(latenessOf(-101, 1000), Lateness::early);
    EXPECT_EQ(latenessOf(500, 1000), Lateness::very_late);
    EXPECT_EQ(latenessOf(-900, 1000), Lateness::very_early);
    std::vector<TaskPair> pairs(1);
    pairs[0].end_change = -1'700'000;
    EXPECT_EQ(differenceScaleOf(pairs), 2'000'000);
    const std::int64_t coarse = differenceScaleOf(pairs, 1'800'000);
    EXPECT_EQ(coarse, 20'000'000);
    EXPECT_EQ(latenessOf(-1'700'000, coarse), Lateness::as_simulated);
    pairs[0].end_change = 3;
    EXPECT_EQ(differenceScaleOf(pairs), 10) << "a tenth is the least that a legend can name";
    pairs[0].end_change = 0;
    EXPECT_EQ(differenceScaleOf(pairs), 0);
    EXPECT_EQ(latenessOf(0, 0), Lateness::as_simulated);
    EXPECT_EQ(describe(Lateness::as_simulated, 0, false), QStringLiteral("no difference"));
    EXPECT_EQ(describe(Lateness::as_simulated, 10'000'000, true),
              QStringLiteral("ends within 1 ms of the run before")
                  .replace(QLatin1String("1 ms"), QStringLiteral("1\u00a0ms")));
    EXPECT_TRUE(latenessText(-1'200'000).endsWith(QLatin1String(" early")));
    EXPECT_TRUE(latenessText(1'200'000).endsWith(QLatin1String(" late")));
    EXPECT_FALSE(latenessText(1'200'000).contains(QLatin1Char('+'))) << "tables subtract in the other order";
    pairs.resize(2);
    pairs[0].end_change = 900;
    const std::bitset<kNumLateness> occurs = latenessIn(pairs, 1000);
    EXPECT_EQ(occurs.count(), 2U);
    EXPECT_TRUE(occurs.test(static_cast<std::size_t>(Lateness::very_late)));
    EXPECT_TRUE(occurs.test(static_cast<std::size_t>(Lateness::as_simulated)));
}

class MinimapTest : public testing::Test {
protected:
    MinimapTest() : map_(axis_) {
        map_.resize(1080, 30);
        map_.setGutter(80);
        map_.setStore(store_);
        axis_.setTotal(TimeRange{0, 1'000'000});
        axis_.show({200'000, 400'000});
        map_.show();
    }
    static QPoint at(double x) { return {static_cast<int>(x), 15}; }
    void drag(double from, double to) {
        QTest::mousePress(&map_, Qt::LeftButton, {}, at(from));
        QMouseEvent move(QEvent::MouseMove, at(to), map_.mapToGlobal(at(to)), Qt::NoButton, Qt::LeftButton, {});
        QApplication::sendEvent(&map_, &move);
        QTest::mouseRelease(&map_, Qt::LeftButton, {}, at(to));
    }

    const std::shared_ptr<const TimelineStore> store_ = sampleStore();
    TimeAxisModel axis_;
    Minimap map_;
};

TEST_F(MinimapTest, FramesWhatIsVisible) {
    EXPECT_NEAR(map_.frame().left(), 80 + 200, 0.01);  // 1000 pixels for a million ns
    EXPECT_NEAR(map_.frame().width(), 200, 0.01);
}

TEST_F(MinimapTest, HidesNoLaneBelowTheFrame) {
    axis_.show({0, 1'000'000});
    const QImage image = map_.grab().toImage();
    for (int x = 90; x < 1070; ++x) {  // the first lane takes several pixels, from the second one on
        ASSERT_EQ(image.pixelColor(x, 2), image.pixelColor(x, 3)) << x;
    }
}

TEST_F(MinimapTest, ShowsTheMeanOfLanesThatShareAPixel) {
    Timeline timeline;
    for (int lane = 0; lane < 520; ++lane) {  // every second one runs a task; more of them than pixels
        timeline.lanes.push_back({"lane " + std::to_string(lane), ""});
        if (lane % 2 == 0) {
            timeline.slices.push_back(
                {{0, TaskKind::forward, lane, 0, -1}, LaneId{lane}, Nanoseconds{0}, Nanoseconds{1'000'000}, 0});
        }
    }
    map_.setStore(std::make_shared<const TimelineStore>(timeline));
    axis_.show({0, 1'000'000});
    const QImage image = map_.grab().toImage();
    const QColor bar = styleOf(TaskKind::forward).color;
    const QColor ground = timelineColors(map_.palette()).bubble;
    for (int y = 5; y < 25; ++y) {
        ASSERT_NEAR(image.pixelColor(500, y).blue(), (bar.blue() + ground.blue()) / 2, 12) << y;
    }
}

TEST_F(MinimapTest, MovesTheWindowByDraggingTheFrame) {
    drag(380, 480);
    EXPECT_EQ(axis_.window().start, 300'000);
    EXPECT_NEAR(axis_.window().length, 200'000, 1);
}

TEST_F(MinimapTest, ZoomsByDraggingAnEdge) {
    drag(480, 580);
    EXPECT_EQ(axis_.window().start, 200'000);
    EXPECT_NEAR(axis_.window().length, 300'000, 1);
}

TEST_F(MinimapTest, BringsTheFrameToAClick) {
    QTest::mouseClick(&map_, Qt::LeftButton, {}, at(880));
    EXPECT_NEAR(map_.frame().center().x(), 880, 1);
}

// Ranges that overlap are in several rows of their thread; the overview shows their union.
TEST(Minimap, ShowsEveryRangeOfAThread) {
    TimeAxisModel axis;
    Minimap overview(axis);
    auto tracks = std::make_shared<TrackStore>();
    tracks->texts = {"", "range"};
    TrackRow upper{{0, {0}, {400}}, "", "thread 1", {1}};
    TrackRow lower{{1, {300}, {900}}, "", "thread 1", {1}};
    tracks->rows = {upper, lower};
    axis.setTotal({0, 1000});
    axis.show({0, 1000});
    overview.setGutter(0);
    overview.resize(1000, 20);
    overview.setTracks(tracks);
    const QImage image = overview.grab().toImage();
    const auto at = [&](int x) { return image.pixelColor(x, 8); };
    EXPECT_NE(at(100), at(950));
    EXPECT_NE(at(700), at(950)) << "a range of the second row runs";
}
}  // namespace
}  // namespace pipescope
