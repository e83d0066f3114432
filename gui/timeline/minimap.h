#pragma once

#include "gui/timeline/lane_raster.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_store.h"
#include "gui/timeline/track_store.h"

#include <QImage>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// An overview strip of the whole time axis, a few pixels per lane, with a frame around the visible part. Drag the
/// frame to pan, or its edges to zoom; click elsewhere to move it there.
class Minimap : public QWidget {
    Q_OBJECT

public:
    /// `axis` must outlive this widget.
    explicit Minimap(TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show. `shift` is added to the store's times.
    void setStore(std::shared_ptr<const TimelineStore> store, std::int64_t shift = 0);
    /// Threads and streams of a file without timelines: each is a row that shows where it has ranges. Null: none.
    void setTracks(std::shared_ptr<const TrackStore> tracks);
    /// Sets the width of the lane name column, so that times align with the views below.
    void setGutter(int width);
    /// Marks these times above the lanes, such as the hits of a search.
    void setHits(std::vector<std::int64_t> times);
    const std::vector<std::int64_t>& hits() const { return hits_; }
    QRectF frame() const;
    QRect lanesRect() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {100, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent*) override { image_ = {}; }
    void changeEvent(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent*) override { drag_.reset(); }
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
    /// ns per pixel.
    double scale() const;
    void drawImage();
    void drawTracks();

    TimeAxisModel& axis_;
    std::shared_ptr<const TimelineStore> store_;
    std::shared_ptr<const TrackStore> tracks_;
    std::vector<std::int64_t> hits_;
    std::int64_t shift_ = 0;
    int gutter_ = 80;
    QImage image_;
    TimeRange imageRange_;
    std::optional<Drag> drag_;
};
}  // namespace pipescope
