#pragma once

#include "gui/timeline/lane_raster.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_store.h"

#include <QImage>
#include <QWidget>

#include <memory>
#include <optional>

namespace pipescope {
/// The whole time axis in a strip, a few pixels a lane, with what is visible framed. The frame is dragged; a click
/// outside of it brings it there; its edges are dragged to zoom.
class Minimap : public QWidget {
    Q_OBJECT

public:
    /// `axis` must outlive it.
    explicit Minimap(TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show. `shift` is added to the store's times.
    void setStore(std::shared_ptr<const TimelineStore> store, std::int64_t shift = 0);
    /// Width of the column of lane names in the views below, so that times stand above times.
    void setGutter(int width);
    /// What is visible, in widget pixels.
    QRectF frame() const;
    QRect lanesRect() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    enum class Grip { move, left, right };
    struct Drag {
        Grip grip;
        double from;
        TimeWindow window;
    };
    std::optional<Grip> gripAt(double x) const;
    /// ns of the whole axis per pixel.
    double scale() const;
    void drawImage();

    TimeAxisModel& axis_;
    std::shared_ptr<const TimelineStore> store_;
    std::int64_t shift_ = 0;
    int gutter_ = 80;
    QImage image_;
    TimeRange imageRange_;
    std::optional<Drag> drag_;
};
}  // namespace pipescope
