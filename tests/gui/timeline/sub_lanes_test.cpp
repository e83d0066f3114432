#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QApplication>

namespace pipescope {
namespace {
Slice laneSlice(TaskKind kind, int lane, int micro_batch, int start, int end, int skip = -1) {
    return {{0, kind, lane, micro_batch, skip}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

/// 1000 pixels for 1000 ns. Lane 0 computes, copies and sends skips, with two copies at a time. Lane 1 only computes.
class SubLanes : public testing::Test {
protected:
    SubLanes() : view_(Source::measured, axis_) {
        view_.setGutter(80);
        view_.resize(1080, 300);
        view_.setStore(store_);
        view_.show();
        QApplication::processEvents();
        axis_.setTotal({0, 1000});
        axis_.show({0, 1000});
    }
    QRectF rectOf(TaskKind kind, int lane, int micro_batch, int skip = -1) const {
        const std::optional<SliceRef> found = store_->find({0, kind, lane, micro_batch, skip});
        EXPECT_TRUE(found);
        return view_.rectOf(found.value_or(SliceRef{}));
    }

    const std::shared_ptr<const TimelineStore> store_ = std::make_shared<const TimelineStore>(Timeline{
        Source::measured,
        {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
        {laneSlice(TaskKind::forward, 0, 0, 0, 200), laneSlice(TaskKind::forward, 0, 1, 200, 400),
         laneSlice(TaskKind::copy_forward, 0, 0, 200, 320), laneSlice(TaskKind::skip_forward, 0, 0, 240, 300, 0),
         laneSlice(TaskKind::copy_forward, 0, 1, 400, 500), laneSlice(TaskKind::forward, 1, 0, 320, 520)}});
    TimeAxisModel axis_;
    TimelineView view_;
};

TEST_F(SubLanes, CopiesAndSkipsStandInThinRowsBelowTheirLanesTasks) {
    const QRectF task = rectOf(TaskKind::forward, 0, 0);
    const QRectF copy = rectOf(TaskKind::copy_forward, 0, 0);
    const QRectF skip = rectOf(TaskKind::skip_forward, 0, 0, 0);
    const QRectF other = rectOf(TaskKind::forward, 1, 0);
    EXPECT_GE(copy.top(), task.bottom());
    EXPECT_GE(skip.top(), copy.bottom());  // beside the copy at the same time, so in a row of its own
    EXPECT_LT(copy.height(), task.height() / 2);
    EXPECT_LT(skip.bottom(), other.top());
    EXPECT_TRUE(view_.laneRect(LaneId{0}).contains(skip.toRect()));
    EXPECT_EQ(rectOf(TaskKind::copy_forward, 0, 1).top(), copy.top());
    EXPECT_NEAR(copy.left(), 80 + 200, 0.01);
    EXPECT_NEAR(copy.right(), 80 + 320, 0.01);
    EXPECT_EQ(view_.sliceAt(copy.center().toPoint()), store_->find({0, TaskKind::copy_forward, 0, 0, -1}));
    EXPECT_EQ(view_.sliceAt(skip.center().toPoint()), store_->find({0, TaskKind::skip_forward, 0, 0, 0}));
}

TEST_F(SubLanes, ArePaintedInTheirKindsColourAndPatternWhereTheyRan) {
    const QImage image = view_.viewport()->grab().toImage();
    const auto at = [&](const QRectF& row, int time, int line) {
        return image.pixel(80 + time, static_cast<int>(row.top()) + line);
    };
    const QRectF copy = rectOf(TaskKind::copy_forward, 0, 0);
    const QRectF skip = rectOf(TaskKind::skip_forward, 0, 0, 0);
    const QRgb copies = styleOf(TaskKind::copy_forward).color.rgb();
    const QRgb skips = styleOf(TaskKind::skip_forward).color.rgb();
    for (int line = 0; line < copy.height(); ++line) {
        EXPECT_EQ(at(copy, 250, line), copies);
        EXPECT_NE(at(copy, 350, line), copies);
        EXPECT_EQ(at(copy, 450, line), copies);
        // A line along the middle distinguishes skips from copies without colour.
        EXPECT_EQ(at(skip, 270, line), line == 3 ? inkOn(QColor::fromRgb(skips)).rgb() : skips) << line;
        EXPECT_NE(at(skip, 310, line), skips);
    }
}

TEST_F(SubLanes, LeaveRoomForALinesNameWhateverTheFont) {
    for (const int percent : {100, 150, 200}) {
        QFont font = QApplication::font();
        font.setPointSizeF(font.pointSizeF() * percent / 100);
        view_.setFont(font);
        view_.resize(1080, 60);  // as low as it gets
        QApplication::processEvents();
        EXPECT_GE(rectOf(TaskKind::forward, 1, 0).height(), view_.fontMetrics().height()) << percent;
        EXPECT_GE(view_.lanesRect().top(), view_.fontMetrics().height()) << percent;  // the ruler's labels
        const int gutter = view_.gutterFor(store_->lanes());
        EXPECT_GE(gutter, view_.fontMetrics().horizontalAdvance(view_.laneTitle(LaneId{0}))) << percent;
    }
}

TEST(MemoryLanes, LeaveRoomForTheirNamesWhateverTheFont) {
    TimeAxisModel axis;
    MemoryView view(axis);
    view.setScene({{{"lane 0", "cpu"}, {"lane 1", "cpu"}}, nullptr, nullptr, 0, {}});
    view.resize(600, 30);
    view.show();
    for (const int percent : {100, 150, 200}) {
        QFont font = QApplication::font();
        font.setPointSizeF(font.pointSizeF() * percent / 100);
        view.setFont(font);
        QApplication::processEvents();
        EXPECT_GE(view.laneBox(0).height(), view.fontMetrics().height()) << percent;
        EXPECT_LT(view.laneBox(0).bottom(), view.laneBox(1).top());
    }
}
}  // namespace
}  // namespace pipescope
