#pragma once

#include "gui/lane_raster.h"
#include "gui/task_style.h"
#include "gui/time_ruler.h"
#include "gui/timeline_layout.h"
#include "gui/timeline_store.h"

#include <QImage>
#include <QRect>

#include <functional>
#include <optional>

class QPainter;

namespace pipescope {
/// What a pane shows at one moment.
struct TimelineScene {
    const TimelineStore* store = nullptr;
    TimeWindow window;  ///< in the store's own times
    TimelineLayout layout;
    QRect lanes;     ///< where lane bodies go, in widget pixels
    int scroll = 0;  ///< pixels of the layout above the view
    std::optional<SliceRef> selected;
    bool selectedIsTwin = false;
    std::optional<SliceRef> hovered;
};

/// Draws lane bodies, bar labels and marks. Bodies are an image that is kept between paints, so that a moving mark
/// costs nothing; a vector device (SVG, PDF) gets real rectangles while there are few enough to be worth it.
class TimelinePainter {
public:
    explicit TimelinePainter(const TimelineColors& colors);

    void setColors(const TimelineColors& colors);
    void paint(QPainter& painter, const TimelineScene& scene);
    /// The next paint draws the bodies again.
    void invalidate() { bodies_ = {}; }
    /// Lane bodies alone, `scale` device pixels per pixel.
    QImage drawBodies(const TimelineScene& scene, double scale);

private:
    void paintVector(QPainter& painter, const TimelineScene& scene) const;
    void paintBars(QPainter& painter, const TimelineScene& scene) const;
    void paintMarks(QPainter& painter, const TimelineScene& scene) const;

    TimelineColors colors_;
    LaneRaster raster_;
    QImage bodies_;
    TimeWindow bodiesWindow_;
    int bodiesScroll_ = 0;
};

/// Where a slice stands in the widget.
QRectF sliceRect(const TimelineScene& scene, SliceRef ref);
/// Calls `visit` with each slice of the row that is at least `least` pixels wide and within the window. Where a row is
/// so dense that hardly any can be, it visits none unless `least` is 0.
void visitVisible(const TimelineScene& scene, const RowBand& row, double least,
                  const std::function<void(const QRectF&, std::size_t index)>& visit);
}  // namespace pipescope
