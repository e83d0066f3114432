#include "gui/timeline/time_ruler.h"
#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QTest>

namespace pipescope {
namespace {
constexpr std::int64_t kMilli = 1'000'000;
constexpr std::int64_t kOrigin = 100 * kMilli;

/// 1000 pixels for 100 ms. The step starts in the middle of the recording.
class CursorPlate : public testing::Test {
protected:
    CursorPlate() : view_(Source::measured, axis_) {
        const Slice slice{
            {0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{kOrigin}, Nanoseconds{kOrigin + 100 * kMilli}, 0};
        view_.setGutter(80);
        view_.resize(1080, 160);
        view_.setStore(std::make_shared<const TimelineStore>(Timeline{Source::measured, {{"lane 0", "cpu"}}, {slice}}));
        view_.show();
        QApplication::processEvents();
        axis_.setTotal({0, 1000 * kMilli});
        axis_.setOrigin(kOrigin);
        axis_.show({kOrigin, kOrigin + 100 * kMilli});
    }
    QString text() const { return view_.cursorText().replace(QChar(QChar::Nbsp), QLatin1Char(' ')); }
    /// Colour of the plate's corner, which has no text.
    QRgb corner() { return view_.viewport()->grab().toImage().pixel(view_.cursorPlate().topLeft().toPoint()); }

    TimeAxisModel axis_;
    TimelineView view_;
};

TEST_F(CursorPlate, TellsTheTimeSinceTheStepBeganUnderThePointer) {
    EXPECT_TRUE(view_.cursorPlate().isEmpty());
    const QPoint pointer(80 + 250, 100);
    const QRgb before = view_.viewport()->grab().toImage().pixel(pointer.x() + 1, 3);
    QTest::mouseMove(view_.viewport(), pointer);
    EXPECT_EQ(text(), QStringLiteral("25.0 ms"));
    const QRectF plate = view_.cursorPlate();
    EXPECT_NEAR(plate.center().x(), pointer.x(), 1);
    EXPECT_LT(plate.bottom(), view_.lanesRect().top());
    EXPECT_NE(corner(), before);
    EXPECT_EQ(corner(), timelineColors(view_.palette()).text.rgb());

    QTest::mouseMove(view_.viewport(), pointer + QPoint(100, 0));
    EXPECT_EQ(text(), QStringLiteral("35.0 ms"));
    EXPECT_NEAR(view_.cursorPlate().center().x(), pointer.x() + 100, 1);
    QEvent leave(QEvent::Leave);
    QApplication::sendEvent(view_.viewport(), &leave);
    EXPECT_TRUE(view_.cursorPlate().isEmpty());
}

TEST_F(CursorPlate, StandsBesideTheLowerBoundsPlate) {
    view_.setLowerBound(Nanoseconds{30 * kMilli});
    const QRectF bound = view_.rulerPlate();
    ASSERT_FALSE(bound.isEmpty());
    for (int time = 0; time <= 100; ++time) {
        axis_.setCursor(kOrigin + time * kMilli);
        const QRectF cursor = view_.cursorPlate();
        EXPECT_FALSE(cursor.intersects(bound)) << time;
        EXPECT_GE(cursor.left(), view_.lanesRect().left()) << time;
        EXPECT_LE(cursor.right(), view_.lanesRect().right() + 1) << time;
    }
}

TEST_F(CursorPlate, FollowsTheCursorOfTheKeyboard) {
    axis_.moveCursor(0.01);  // none is in view: from the middle
    EXPECT_EQ(text(), QStringLiteral("51.0 ms"));
    axis_.moveCursor(-0.02);
    EXPECT_EQ(text(), QStringLiteral("49.0 ms"));
    EXPECT_NEAR(view_.cursorPlate().center().x(), 80 + 490, 1);
    axis_.moveCursor(-5);
    EXPECT_EQ(axis_.cursor(), kOrigin);  // as far as the view goes
    axis_.moveCursor(5);
    EXPECT_EQ(axis_.cursor(), kOrigin + 100 * kMilli);
    axis_.show({kOrigin + 200 * kMilli, kOrigin + 300 * kMilli});
    EXPECT_TRUE(view_.cursorPlate().isEmpty());
    axis_.moveCursor(0);
    EXPECT_EQ(text(), QStringLiteral("250.0 ms"));
}

TEST_F(CursorPlate, StaysOnTheRulerAtItsEnds) {
    for (const std::int64_t time : {kOrigin, kOrigin + 100 * kMilli - 1}) {
        axis_.setCursor(time);
        const QRectF plate = view_.cursorPlate();
        EXPECT_GE(plate.left(), view_.lanesRect().left());
        EXPECT_LE(plate.right(), view_.lanesRect().right() + 1);
        EXPECT_GE(plate.width(), view_.fontMetrics().horizontalAdvance(view_.cursorText()));
    }
}

TEST_F(CursorPlate, CutsNoLabelOfTheRuler) {
    const std::size_t all = view_.rulerLabels().size();
    for (int k = 0; k < 100; ++k) {
        axis_.setCursor(kOrigin + k * kMilli);
        for (const AxisView::RulerLabel& label : view_.rulerLabels()) {
            EXPECT_FALSE(label.rect.intersects(view_.cursorPlate())) << label.text.toStdString();
        }
        EXPECT_GE(view_.rulerLabels().size() + 2, all) << "only those below it are left out";
    }
}

TEST(CursorTime, IsAsExactAsAPixelAndInTheRulersUnit) {
    const auto told = [](const TimeWindow& window, std::int64_t origin, std::int64_t cursor) {
        return cursorTime(window, 1000, origin, cursor).replace(QChar(QChar::Nbsp), QLatin1Char(' '));
    };
    EXPECT_EQ(told({0, 0, 1e9}, 0, 500'400), QStringLiteral("0.001 s"));
    EXPECT_EQ(told({0, 0, 1e6}, 0, 500'400), QStringLiteral("0.500 ms"));
    EXPECT_EQ(told({0, 0, 1e3}, 0, 500), QStringLiteral("0.500 µs"));
    EXPECT_EQ(told({0, 0, 1e6}, 700'000, 500'000), QStringLiteral("−200 µs"));
}
}  // namespace
}  // namespace pipescope
