#include "gui/timeline/time_window.h"

#include "gui/timeline/time_ruler.h"

#include <gtest/gtest.h>

#include <QStringList>

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::int64_t kHour = 3'600'000'000'000;

TEST(TimeWindow, MapsTimesToPixelsAndBack) {
    const TimeWindow window{1000, 0, 500};
    EXPECT_DOUBLE_EQ(pixelOf(window, 100, 1000), 0);
    EXPECT_DOUBLE_EQ(pixelOf(window, 100, 1250), 50);
    EXPECT_DOUBLE_EQ(pixelOf(window, 100, 1500), 100);
    EXPECT_EQ(timeAt(window, 100, 50), 1250);
}

TEST(TimeWindow, TellsSingleNanosecondsApartAfterHours) {
    const TimeWindow window{10'000 * kHour, 0.5, 200};
    EXPECT_DOUBLE_EQ(pixelOf(window, 1000, 10'000 * kHour + 1), 2.5);
    EXPECT_DOUBLE_EQ(pixelOf(window, 1000, 10'000 * kHour + 2), 7.5);
}

TEST(TimeWindow, KeepsTheTimeUnderTheAnchorWhileZooming) {
    TimeWindow window{5 * kHour, 0.25, 1e9};
    const double width = 1600;
    const double x = 1234;
    const std::int64_t under = timeAt(window, width, x);
    for (int i = 0; i < 40; ++i) {
        window = zoomed(window, x / width, 0.8);
        EXPECT_NEAR(pixelOf(window, width, under), x, 1e-3 + width / window.length);
    }
}

TEST(TimeWindow, StaysInsideTheTotal) {
    const TimeRange total{1000, 5000};
    EXPECT_EQ(clamped({0, 0, 1000}, total), (TimeWindow{1000, 0, 1000}));
    EXPECT_EQ(clamped({4500, 0, 1000}, total), (TimeWindow{4000, 0, 1000}));
    EXPECT_EQ(clamped({0, 0, 1e9}, total), (TimeWindow{1000, 0, 4000}));
    EXPECT_DOUBLE_EQ(clamped({2000, 0, 0.001}, total).length, kShortestWindow);
}

TEST(Ruler, LabelsRoundTimesInOneUnit) {
    const Ruler ruler = makeRuler({0, 0, 10'000'000}, 1000, 0, 150);
    EXPECT_EQ(ruler.step, 2'000'000);
    QStringList labels;
    for (const RulerTick& tick : ruler.ticks) {
        if (!tick.label.isEmpty()) {
            labels << QString(tick.label).replace(QChar(QChar::Nbsp), QLatin1Char(' '));
            EXPECT_NEAR(tick.x, (labels.size() - 1) * 200.0, 1e-9);
        }
    }
    EXPECT_EQ(labels.mid(0, 3), (QStringList{QStringLiteral("0 ms"), QStringLiteral("2 ms"), QStringLiteral("4 ms")}));
}

TEST(Ruler, CountsFromTheOriginBelowZeroToo) {
    const Ruler ruler = makeRuler({0, 0, 10'000}, 1000, 5000, 200);
    const auto zero = std::find_if(ruler.ticks.begin(), ruler.ticks.end(),
                                   [](const RulerTick& tick) { return tick.label.startsWith(QLatin1Char('0')); });
    ASSERT_NE(zero, ruler.ticks.end());
    EXPECT_DOUBLE_EQ(zero->x, 500);
}

TEST(Ruler, ShowsTheCommonPartOnceWhenLabelsWouldBeLong) {
    const Ruler ruler = makeRuler({kHour, 0, 1000}, 1000, 0, 200);
    EXPECT_FALSE(ruler.base.isEmpty());
    for (const RulerTick& tick : ruler.ticks) {
        EXPECT_TRUE(tick.label.isEmpty() || tick.label.startsWith(QLatin1Char('+'))) << tick.label.toStdString();
    }
}
}  // namespace
}  // namespace pipescope
