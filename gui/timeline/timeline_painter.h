#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/bar_labels.h"
#include "gui/timeline/lane_raster.h"
#include "gui/timeline/time_ruler.h"
#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_store.h"

#include <QImage>
#include <QRect>

#include <functional>
#include <optional>
#include <vector>

class QPainter;

namespace pipescope {
struct TimelineMarks;

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
    const TimelineMarks* marks = nullptr;  ///< null: none
};

/// Draws lane bodies, bar labels and marks. Bodies are an image that is kept between paints, so that a moving mark
/// costs nothing; a vector device (SVG, PDF) gets real rectangles while there are few enough to be worth it.
class TimelinePainter {
public:
    explicit TimelinePainter(const TimelineColors& colors);

    void setColors(const TimelineColors& colors);
    /// `between` paints what belongs above the bars and below what is marked.
    void paint(QPainter& painter, const TimelineScene& scene, const std::function<void()>& between = {});
    /// Only the bars, over what was painted before, with a name in each that `nameOf` gives one and that is wide
    /// enough.
    void paintKernels(QPainter& painter, const TimelineScene& scene, const std::function<QString(SliceRef)>& nameOf);
    /// The next paint draws the bodies again.
    void invalidate() { strips_.clear(); }

private:
    /// Brings the strips up to date, `scale` device pixels per pixel.
    void refreshStrips(const TimelineScene& scene, double scale);
    void paintStrips(QPainter& painter, const TimelineScene& scene, double scale) const;
    void paintBodies(QPainter& painter, const TimelineScene& scene);
    void paintGaps(QPainter& painter, const TimelineScene& scene) const;
    void paintVector(QPainter& painter, const TimelineScene& scene) const;
    void paintLabels(QPainter& painter, const TimelineScene& scene);
    void paintMarks(QPainter& painter, const TimelineScene& scene) const;

    TimelineColors colors_;
    std::vector<LaneRaster> rasters_;  // one per thread
    LabelPainter labels_;
    struct Strip {
        QImage image;
        TimeWindow window;  // it was drawn for
    };
    // One per row of the store, LaneRaster::kLines lines each: they stay in the cache while they are copied
    // down their rows, which an image of the whole view would not.
    std::vector<Strip> strips_;
};

/// Where a time of a band stands in the widget; far beyond the edges it is cut off.
QRectF rectAt(const TimelineScene& scene, const Band& band, std::int64_t start, std::int64_t end);
/// Where a slice stands in the widget.
QRectF sliceRect(const TimelineScene& scene, SliceRef ref);
/// Calls `visit` with each slice of the row that is at least `least` pixels wide and within the window. Where a row is
/// so dense that hardly any can be, it visits none unless `least` is 0.
void visitVisible(const TimelineScene& scene, const RowBand& row, double least,
                  const std::function<void(const QRectF&, std::size_t index)>& visit);
}  // namespace pipescope
