#include "gui/style/task_style.h"
#include "gui/style/theme.h"
#include "gui/timeline/bar_labels.h"
#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QApplication>

namespace pipescope {
namespace {
Slice sliceOf(TaskKind kind, int lane, int partition, int start, int end) {
    return {{0, kind, partition, 3, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

/// 1000 pixels for 1000 ns. Lane 0 runs the partitions 0, 2 and 4, lane 1 the partitions 1 and 3, lane 2 only 5.
class PartitionTops : public testing::Test {
protected:
    PartitionTops() : view_(Source::measured, axis_) {
        view_.setGutter(80);
        view_.setStore(store_);
        axis_.setTotal({0, 1000});
        axis_.show({0, 1000});
        showAt(400);
    }
    ~PartitionTops() override { applyTheme(Theme::light); }

    void showAt(int height) {
        view_.resize(1080, height);
        view_.show();
        QApplication::processEvents();
    }
    QRectF rectOf(int partition, TaskKind kind = TaskKind::forward) const {
        return view_.rectOf(store_->find({0, kind, partition, 3, -1}).value_or(SliceRef{}));
    }
    /// The colour of a bar at its top, beside a number in the middle.
    QColor topOf(int partition, TaskKind kind = TaskKind::forward) {
        const QRectF bar = rectOf(partition, kind);
        return view_.viewport()->grab().toImage().pixelColor(static_cast<int>(bar.left()) + 6,
                                                             static_cast<int>(bar.top()) + 2);
    }

    const std::shared_ptr<const TimelineStore> store_ = std::make_shared<const TimelineStore>(
        Timeline{Source::measured,
                 {{"lane 0", "cpu"}, {"lane 1", "cpu"}, {"lane 2", "cpu"}},
                 {sliceOf(TaskKind::forward, 0, 0, 0, 100), sliceOf(TaskKind::forward, 0, 2, 100, 200),
                  sliceOf(TaskKind::forward, 0, 4, 200, 300), sliceOf(TaskKind::backward, 0, 4, 300, 400),
                  sliceOf(TaskKind::forward, 1, 1, 0, 100), sliceOf(TaskKind::forward, 1, 3, 100, 200),
                  sliceOf(TaskKind::forward, 2, 5, 0, 100)}});
    TimeAxisModel axis_;
    TimelineView view_;
};

TEST_F(PartitionTops, AreDarkerTheLaterThePartitionOfTheLaneInBothThemesAndAtEveryHeight) {
    const QColor bar = styleOf(TaskKind::forward).color;
    for (const Theme theme : {Theme::light, Theme::dark}) {
        applyTheme(theme);
        for (const int height : {130, 200, 400}) {
            showAt(height);
            ASSERT_GE(rectOf(0).height(), kLowestPatternRow);
            EXPECT_EQ(topOf(0), bar);
            EXPECT_EQ(topOf(2), partitionShade(bar, 0.5));
            EXPECT_EQ(topOf(4), partitionShade(bar, 1));
            EXPECT_EQ(topOf(3), partitionShade(bar, 0.5)) << "the second partition, as that of lane 0";
            EXPECT_EQ(topOf(4, TaskKind::backward), partitionShade(styleOf(TaskKind::backward).color, 1));
            EXPECT_EQ(topOf(5), bar) << "the only partition of its lane";
        }
    }
}

TEST_F(PartitionTops, DifferInLightnessWhichEveryEyeSees) {
    const auto lightness = [](const QColor& color) {
        return 0.299 * color.red() + 0.587 * color.green() + 0.114 * color.blue();
    };
    for (const TaskKind kind :
         {TaskKind::forward, TaskKind::recompute, TaskKind::backward, TaskKind::backward_weight}) {
        const QColor bar = styleOf(kind).color;
        EXPECT_GT(lightness(bar), 2 * lightness(partitionShade(bar, 1)));
    }
}

TEST_F(PartitionTops, AreLeftOutWhereTheKindIsHidden) {
    KindSet hidden;
    hidden.set(static_cast<std::size_t>(TaskKind::forward));
    view_.setHidden(hidden);
    EXPECT_NE(topOf(4), partitionShade(styleOf(TaskKind::forward).color, 1));
    EXPECT_EQ(topOf(4, TaskKind::backward), partitionShade(styleOf(TaskKind::backward).color, 1));
}

TEST_F(PartitionTops, HaveThePartitionsNumberInHighRowsOnly) {
    const auto inked = [&](int partition) {
        const QRectF bar = rectOf(partition);
        const QImage image = view_.viewport()->grab().toImage();
        const PartitionTop top = partitionTopOf(static_cast<int>(bar.height()), view_.font(), false);
        int count = 0;
        for (int y = 0; y < top.height; ++y) {
            for (int x = 0; x < 20; ++x) {
                const QColor at = image.pixelColor(static_cast<int>(bar.center().x()) - 10 + x,
                                                   static_cast<int>(bar.top()) + top.inset + y);
                count += at != partitionShade(styleOf(TaskKind::forward).color, 1) ? 1 : 0;
            }
        }
        return count;
    };
    EXPECT_GT(inked(4), 0);
    showAt(130);
    ASSERT_FALSE(partitionTopOf(static_cast<int>(rectOf(4).height()), view_.font(), false).named);
    EXPECT_LT(inked(4), 20) << "at most the upper edge of the label";
}

TEST_F(PartitionTops, StoreTellsThePlaceOfAPartitionOnItsLane) {
    EXPECT_EQ(store_->partitionsOf(LaneId{0}), (std::vector<std::int32_t>{0, 2, 4}));
    EXPECT_EQ(store_->placeOf(LaneId{0}, 0), 0);
    EXPECT_EQ(store_->placeOf(LaneId{0}, 4), 1);
    EXPECT_EQ(store_->placeOf(LaneId{1}, 3), 0.5) << "lane 0 has a third one";
    EXPECT_EQ(store_->placeOf(LaneId{1}, 4), std::nullopt);
    EXPECT_EQ(store_->placeOf(LaneId{2}, 5), std::nullopt);
    EXPECT_EQ(store_->placeOf(LaneId{0}, -1), std::nullopt) << "an optimizer";
}
}  // namespace
}  // namespace pipescope
