#include "gui/timeline/lane_raster.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QPalette>

#include <set>

namespace pipescope {
namespace {
Slice slice(TaskKind kind, int micro_batch, int start, int end) {
    return {{0, kind, 0, micro_batch, -1}, LaneId{0}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

class LaneRasterTest : public testing::Test {
protected:
    QImage draw(const Timeline& timeline, const TimeWindow& window, int width) {
        QImage image(width, 16, QImage::Format_RGB32);
        image.fill(Qt::magenta);
        LaneRaster(colors_).draw(TimelineStore(timeline), window, {0, 2, 12}, image);
        return image;
    }

    // The bubble's pattern has no dot on line 2 of the band.
    static constexpr int kClearLine = 4;
    const TimelineColors colors_ = timelineColors(QApplication::palette());
    // F 0..100, idle, B 200..400
    const Timeline timeline_{Source::measured,
                             {{"lane 0", "cpu"}},
                             {slice(TaskKind::forward, 0, 0, 100), slice(TaskKind::backward, 0, 200, 400)}};
};

TEST_F(LaneRasterTest, PaintsEachSliceAtItsPixels) {
    const QImage image = draw(timeline_, {0, 0, 400}, 400);
    for (int x = 0; x < 400; ++x) {
        const QColor expected = x < 100   ? styleOf(TaskKind::forward).color
                                : x < 200 ? colors_.bubble
                                          : styleOf(TaskKind::backward).color;
        ASSERT_EQ(image.pixel(x, kClearLine), expected.rgb()) << "column " << x;
    }
}

TEST_F(LaneRasterTest, GivesWideSlicesALeftEdgeAndNarrowOnesNone) {
    QImage image(400, 8, QImage::Format_RGB32);
    LaneRaster(colors_).draw(TimelineStore(timeline_), {0, 0, 400}, {0, 0, 8, 150}, image);
    EXPECT_EQ(image.pixel(200, kClearLine), colors_.border.rgb());  // B is 200 wide
    EXPECT_EQ(image.pixel(0, kClearLine), styleOf(TaskKind::forward).color.rgb());
}

TEST_F(LaneRasterTest, ShadesTheBubbleOnlyWithinTheStep) {
    const QImage image = draw(timeline_, {-200, 0, 800}, 800);
    EXPECT_EQ(image.pixel(100, kClearLine), colors_.lane.rgb());
    EXPECT_EQ(image.pixel(350, kClearLine), colors_.bubble.rgb());
    EXPECT_EQ(image.pixel(700, kClearLine), colors_.lane.rgb());
}

TEST_F(LaneRasterTest, DrawsAHiddenKindAsNoTaskAndNoBubble) {
    KindSet hidden;
    hidden.set(static_cast<std::size_t>(TaskKind::forward));
    QImage image(400, 16, QImage::Format_RGB32);
    LaneRaster(colors_, hidden).draw(TimelineStore(timeline_), {0, 0, 400}, {0, 0, 16, 4}, image);
    for (int y = 0; y < 16; ++y) {
        for (int x = 0; x < 100; ++x) {
            ASSERT_EQ(image.pixel(x, y), colors_.lane.rgb()) << x << ", " << y;
        }
    }
    EXPECT_EQ(image.pixel(150, kClearLine), colors_.bubble.rgb());
    EXPECT_EQ(image.pixel(300, kClearLine), styleOf(TaskKind::backward).color.rgb());
}

TEST_F(LaneRasterTest, ShowsTheOtherKindOfAPixelWhereOneIsHidden) {
    KindSet hidden;
    hidden.set(static_cast<std::size_t>(TaskKind::forward));
    const Timeline dense{Source::measured,
                         {{"lane 0", "cpu"}},
                         {slice(TaskKind::forward, 0, 0, 90), slice(TaskKind::backward, 0, 90, 100)}};
    QImage image(1, 8, QImage::Format_RGB32);
    LaneRaster(colors_, hidden).draw(TimelineStore(dense), {0, 0, 100}, {0, 0, 8}, image);
    const QColor seen = image.pixel(0, 4);
    const QColor backward = styleOf(TaskKind::backward).color;
    const QColor forward = styleOf(TaskKind::forward).color;
    const auto distance = [&](const QColor& color) {
        const QColor ground = QColor::fromRgb(colors_.lane.rgb());
        return std::abs((seen.red() - ground.red()) * (color.blue() - ground.blue()) -
                        (seen.blue() - ground.blue()) * (color.red() - ground.red()));
    };
    EXPECT_NE(seen, QColor::fromRgb(colors_.lane.rgb()));
    EXPECT_LT(distance(backward), distance(forward)) << "a tint of the backward's colour";
}

TEST_F(LaneRasterTest, LeavesTheRestOfTheImageAlone) {
    const QImage image = draw(timeline_, {0, 0, 400}, 400);
    EXPECT_EQ(image.pixel(50, 1), QColor(Qt::magenta).rgb());
    EXPECT_EQ(image.pixel(50, 14), QColor(Qt::magenta).rgb());
}

TEST_F(LaneRasterTest, MixesAColumnByItsBusyShare) {
    // 4 columns of 100 ns. The second one is half busy.
    const Timeline half{Source::measured,
                        {{"lane 0", "cpu"}},
                        {slice(TaskKind::forward, 0, 0, 150), slice(TaskKind::forward, 1, 300, 400)}};
    const QImage image = draw(half, {0, 0, 400}, 4);
    const QColor full = styleOf(TaskKind::forward).color;
    EXPECT_EQ(image.pixel(0, kClearLine), full.rgb());
    EXPECT_NEAR(qBlue(image.pixel(1, kClearLine)), (full.blue() + colors_.bubble.blue()) / 2, 2);
    EXPECT_EQ(image.pixel(3, kClearLine), full.rgb());
}

TEST_F(LaneRasterTest, IsEvenWhereTasksAndGapsAreTooShortToBeSeen) {
    Timeline dense{Source::measured, {{"lane 0", "cpu"}}, {}};
    for (int i = 0; i < 2000; ++i) {  // 6 of 10 ns busy, in columns of 13 ns
        dense.slices.push_back(slice(TaskKind::backward, i, i * 10, i * 10 + 6));
    }
    const QColor full = styleOf(TaskKind::backward).color;
    const auto mean = static_cast<int>(colors_.bubble.red() + 0.6 * (full.red() - colors_.bubble.red()));
    for (const bool patterns : {false, true}) {
        QImage image(1200, 8, QImage::Format_RGB32);
        LaneRaster(colors_).draw(TimelineStore(dense), {0, 0, 1200 * 13.0}, {0, 0, 8, 0, patterns}, image);
        for (int x = 0; x < 1200; ++x) {
            ASSERT_NEAR(qRed(image.pixel(x, 0)), mean, 12) << x;  // shares of single columns are up to 40 off
        }
    }
}

TEST_F(LaneRasterTest, ShowsALoneSliceFarShorterThanAPixel) {
    const Timeline tiny{Source::measured, {{"lane 0", "cpu"}}, {slice(TaskKind::forward, 0, 500'000, 500'001)}};
    const QImage image = draw(tiny, {0, 0, 1'000'000}, 100);
    EXPECT_NE(image.pixel(50, kClearLine), colors_.lane.rgb());
    EXPECT_EQ(image.pixel(49, kClearLine), colors_.lane.rgb());
}

TEST_F(LaneRasterTest, HatchesRecomputeSoThatColourIsNotAlone) {
    const Timeline recompute{Source::measured, {{"lane 0", "cpu"}}, {slice(TaskKind::recompute, 0, 0, 400)}};
    const QImage image = draw(recompute, {0, 0, 400}, 400);
    int hatched = 0;
    for (int x = 0; x < 400; ++x) {
        hatched += image.pixel(x, kClearLine) != styleOf(TaskKind::recompute).color.rgb() ? 1 : 0;
    }
    EXPECT_EQ(hatched, 100);                                                                    // 2 of 8 columns
    EXPECT_NE(image.pixel(0, 2) == image.pixel(0, 3), image.pixel(1, 2) == image.pixel(1, 3));  // and it is diagonal
}

/// Inked pixels of a bar of the kind, in one tile of the band.
QByteArray inkOf(const QImage& image, TaskKind kind) {
    QByteArray ink;
    for (int y = 2; y < 2 + LaneRaster::kLines; ++y) {
        for (int x = 0; x < LaneRaster::kLines; ++x) {
            ink.append(image.pixel(x, y) == styleOf(kind).color.rgb() ? '.' : '#');
        }
    }
    return ink;
}

TEST_F(LaneRasterTest, DrawsKindsOfOneShapeInDifferentPatterns) {
    for (const bool copies : {false, true}) {
        std::set<QByteArray> drawn;
        std::size_t kinds = 0;
        for (int k = 0; k < kNumTaskKinds; ++k) {
            const auto kind = static_cast<TaskKind>(k);
            if (is_copy(kind) != copies) {
                continue;
            }
            // Copies are in the second row, below the lane's tasks.
            Timeline one{Source::measured, {{"lane 0", "cpu"}}, {slice(kind, 0, 0, 400)}};
            const TimelineStore store(one);
            std::uint32_t row = 0;
            while (store.rows()[row].start.empty()) {
                ++row;
            }
            QImage image(400, 16, QImage::Format_RGB32);
            LaneRaster(colors_).draw(store, {0, 0, 400}, {row, 2, 12}, image);
            drawn.insert(inkOf(image, kind));
            EXPECT_EQ(inkOf(image, kind).contains('#'), styleOf(kind).pattern != Pattern::plain) << k;
            ++kinds;
        }
        EXPECT_EQ(drawn.size(), kinds) << (copies ? "copies" : "tasks");
    }
}
}  // namespace
}  // namespace pipescope
