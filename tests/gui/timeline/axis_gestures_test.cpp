#include "gui/timeline/track_view.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QGestureEvent>
#include <QMouseEvent>
#include <QNativeGestureEvent>
#include <QPointingDevice>
#include <QScrollBar>
#include <QWheelEvent>

namespace pipescope {
namespace {
/// A view of 1000 pixels over one second, half of which is visible.
class AxisGestures : public testing::Test {
protected:
    AxisGestures() : view_(axis_) {
        view_.setGutter(80);
        view_.resize(1080, 60);
        TrackStore store;
        store.texts = {""};
        for (int depth = 0; depth < 30; ++depth) {  // more than fit, so that it can be scrolled
            store.rows.push_back({{depth, {0}, {1000}}, "GPU 0", "stream 7", {0}});
        }
        view_.setStore(std::make_shared<const TrackStore>(std::move(store)));
        view_.setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
        view_.show();
        QApplication::processEvents();
        axis_.setTotal({0, 1'000'000'000});
        axis_.show({250'000'000, 750'000'000});
    }
    void send(QEvent& event) { QCoreApplication::sendEvent(view_.viewport(), &event); }
    void pinchTouchpad(Qt::NativeGestureType type, const QPointF& at, double value) {
        QNativeGestureEvent event(type, QPointingDevice::primaryPointingDevice(), 2, at, at,
                                  view_.viewport()->mapToGlobal(at), value, {});
        send(event);
    }
    void swipe(const QPoint& pixels, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
        const QPointF at(500, 20);
        QWheelEvent event(at, view_.viewport()->mapToGlobal(at), pixels, pixels * 2, Qt::NoButton, modifiers,
                          Qt::ScrollUpdate, false);
        send(event);
    }

    TimeAxisModel axis_;
    TrackView view_;
};

TEST_F(AxisGestures, APinchOnATouchpadZoomsAboutTheFingers) {
    const QPointF at(380, 20);
    const std::int64_t under = view_.timeAtPixel(at.x());
    const double length = axis_.window().length;
    pinchTouchpad(Qt::BeginNativeGesture, at, 0);
    pinchTouchpad(Qt::ZoomNativeGesture, at, 0.25);
    EXPECT_NEAR(axis_.window().length, length / 1.25, 2);
    EXPECT_NEAR(view_.pixelAtTime(under), at.x(), 1);
    pinchTouchpad(Qt::ZoomNativeGesture, at, -0.2);
    EXPECT_NEAR(axis_.window().length, length, 2);
    pinchTouchpad(Qt::ZoomNativeGesture, at, -7);  // nonsense of a driver
    EXPECT_GT(axis_.window().length, 0);
    pinchTouchpad(Qt::EndNativeGesture, at, 0);
}

TEST_F(AxisGestures, APinchOnATouchScreenZoomsAboutItsCentre) {
    QPinchGesture pinch;
    pinch.setScaleFactor(2);
    pinch.setChangeFlags(QPinchGesture::ScaleFactorChanged);
    const QPoint at(580, 20);
    pinch.setCenterPoint(view_.viewport()->mapToGlobal(at));
    const std::int64_t under = view_.timeAtPixel(at.x());
    const double length = axis_.window().length;
    QGestureEvent event({&pinch});
    send(event);
    EXPECT_NEAR(axis_.window().length, length / 2, 2);
    EXPECT_NEAR(view_.pixelAtTime(under), at.x(), 1);
}

TEST_F(AxisGestures, APressBeginsADragThoughTheReleaseBeforeWasLost) {
    const auto mouse = [&](QEvent::Type type, int x, Qt::MouseButton button) {
        const QPointF at(x, 20);
        QMouseEvent event(type, at, view_.viewport()->mapToGlobal(at), button, Qt::LeftButton, {});
        send(event);
    };
    mouse(QEvent::MouseButtonPress, 900, Qt::LeftButton);  // released over another window
    mouse(QEvent::MouseButtonPress, 300, Qt::LeftButton);
    const std::int64_t under = view_.timeAtPixel(300);
    mouse(QEvent::MouseMove, 350, Qt::NoButton);
    EXPECT_NEAR(view_.pixelAtTime(under), 350, 1);
}

TEST_F(AxisGestures, TwoFingersMoveTheContentAsFarAsTheyMove) {
    const std::int64_t under = view_.timeAtPixel(500);
    swipe({37, 3});
    EXPECT_NEAR(view_.pixelAtTime(under), 537, 1);
    swipe({0, -37}, Qt::ShiftModifier);
    EXPECT_NEAR(view_.pixelAtTime(under), 500, 1);
    swipe({2, -11});
    EXPECT_EQ(view_.verticalScrollBar()->value(), 11);
    swipe({0, 4});
    EXPECT_EQ(view_.verticalScrollBar()->value(), 7);
}
}  // namespace
}  // namespace pipescope
