#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QApplication>

#include <random>

namespace pipescope {
namespace {
constexpr std::int64_t kMillisecond = 1'000'000;

TEST(RulerLabels, AreWholeAndApartAtEveryZoomAndPlace) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    const Slice slice{
        {0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{40'000 * kMillisecond}, 0};
    view.setGutter(80);
    view.setStore(std::make_shared<const TimelineStore>(Timeline{Source::measured, {{"lane 0", "cpu"}}, {slice}}));
    view.show();
    axis.setTotal({0, 40'000 * kMillisecond});
    std::mt19937 random(7);
    std::size_t labels = 0;
    for (int i = 0; i < 300; ++i) {
        view.resize(300 + static_cast<int>(random() % 1700), 160);
        QApplication::processEvents();
        const std::int64_t length = std::int64_t{1000} << (random() % 25);
        const auto start =
            static_cast<std::int64_t>(random() % 35'000) * kMillisecond + static_cast<int>(random() % 999'999);
        axis.show({start, start + length});
        double free = view.lanesRect().left();
        for (const TimelineView::RulerLabel& label : view.rulerLabels()) {
            EXPECT_GE(label.rect.left(), free);
            free = label.rect.right();
            EXPECT_GE(label.rect.width(), QFontMetricsF(view.font()).horizontalAdvance(label.text));
            ++labels;
        }
        EXPECT_LE(free, view.lanesRect().left() + view.lanesRect().width());
    }
    EXPECT_GT(labels, 300U);
}

TEST(RulerLabels, DoNotShowTheTailOfANumberThatBeganLeftOfTheEdge) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    const Slice slice{{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{1000 * kMillisecond}, 0};
    view.setGutter(80);
    view.setStore(std::make_shared<const TimelineStore>(Timeline{Source::measured, {{"lane 0", "cpu"}}, {slice}}));
    view.resize(1080, 160);
    view.show();
    QApplication::processEvents();
    axis.setTotal({0, 1000 * kMillisecond});
    axis.show({200 * kMillisecond, 400 * kMillisecond});
    const std::size_t whole = view.rulerLabels().size();
    axis.show({201 * kMillisecond, 401 * kMillisecond});  // the first tick is now 5 pixels left of the lanes
    EXPECT_EQ(view.rulerLabels().size(), whole - 1);
    // Pixels right of the edge have the ruler's background, without part of a digit.
    const QImage image = view.viewport()->grab().toImage();
    const QRgb ground = image.pixel(81, 2);
    for (int y = 2; y < view.lanesRect().top() - 10; ++y) {
        for (int x = 81; x < 100; ++x) {
            ASSERT_EQ(image.pixel(x, y), ground) << x << "," << y;
        }
    }
}
}  // namespace
}  // namespace pipescope
