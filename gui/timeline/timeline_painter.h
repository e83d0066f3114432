#pragma once

#include "analysis/bubble_causes.h"
#include "gui/style/task_style.h"
#include "gui/timeline/bar_labels.h"
#include "gui/timeline/lane_raster.h"
#include "gui/timeline/time_ruler.h"
#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_store.h"

#include <QImage>
#include <QRect>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

class QPainter;

namespace pipescope {
struct TimelineMarks;
struct LowBubbles;

/// The visible content of a pane.
struct TimelineScene {
    const TimelineStore* store = nullptr;
    TimeWindow window;                             ///< in the store's times
    std::shared_ptr<const TimelineLayout> layout;  ///< scrolled; never null
    QRect lanes;                                   ///< area of the lane bodies, in widget pixels
    std::optional<SliceRef> selected;
    std::optional<Bubble> selectedBubble;
    bool selectedIsTwin = false;
    std::optional<SliceRef> hovered;
    const TimelineMarks* marks = nullptr;  ///< null: none
    KindSet hidden = {};                   ///< kinds whose bars are not drawn
};

/// Draws lane bodies, bar labels and marks. Bodies are kept as an image between paints, so that moving a mark costs
/// nothing. A vector device (SVG, PDF) gets real rectangles unless there are too many.
class TimelinePainter {
public:
    explicit TimelinePainter(const TimelineColors& colors);

    void setColors(const TimelineColors& colors);
    /// `between` paints what goes above the bars and below the marks.
    void paint(QPainter& painter, const TimelineScene& scene, const std::function<void()>& between = {});
    /// Paints only the bars, over the existing content. A bar that is wide enough gets a name from `nameOf`, unless
    /// that is empty.
    void paintKernels(QPainter& painter, const TimelineScene& scene, const std::function<QString(SliceRef)>& nameOf);
    /// Makes the next paint draw the bodies again.
    void invalidate() {
        strips_.clear();
        std::ranges::for_each(rasters_, &LaneRaster::forget);
    }

private:
    /// Updates the strips at `scale` device pixels per pixel.
    void refreshStrips(const TimelineScene& scene, double scale);
    void paintStrips(QPainter& painter, const TimelineScene& scene, double scale, const LowBubbles& bubbles);
    /// True if bubbles of low rows are painted with them.
    bool paintBodies(QPainter& painter, const TimelineScene& scene);
    void paintGaps(QPainter& painter, const TimelineScene& scene) const;
    void paintVector(QPainter& painter, const TimelineScene& scene) const;
    /// Shades the top of a bar, and names its partition there if there is room.
    void paintPartition(QPainter& painter, const TimelineScene& scene, const QRectF& bar, const TaskKey& key,
                        const PartitionTop& shade, double place);
    void paintLabels(QPainter& painter, const TimelineScene& scene);
    /// Tasks without duration, between their neighbours or in a bubble.
    void paintTicks(QPainter& painter, const TimelineScene& scene) const;
    void paintMarks(QPainter& painter, const TimelineScene& scene) const;

    TimelineColors colors_;
    KindSet hidden_;                   // of the rasters
    std::vector<LaneRaster> rasters_;  // one per thread
    LabelPainter labels_;
    struct Strip {
        QImage image;
        TimeWindow window;  // the window they were drawn for
    };
    // By row of the store; rows that share a band have one, that of the first. Lines repeat, so a strip has no more
    // than LaneRaster::kLines of them, and one if the row has no patterns. A strip of a row of a pixel or two has
    // columns of several, which lowers the cost. Unlike an image of the whole view, a strip stays in the cache while
    // it is copied down its row.
    std::vector<Strip> strips_;
};

/// Rectangle of a time range in a band, in widget pixels, clipped far beyond the edges.
QRectF rectAt(const TimelineScene& scene, const Band& band, std::int64_t start, std::int64_t end);
/// Rectangle of a slice, in widget pixels.
QRectF sliceRect(const TimelineScene& scene, SliceRef ref);
// Draw TimelineMarks on a scene. The painter is clipped to the scene's lanes.

/// A bubble in a row without patterns, in pixels of the device from the left edge of the lanes.
struct BubbleSpan {
    LaneId lane;
    int from = 0;
    int end = 0;
    BubbleCause cause = BubbleCause::finished;
};
/// Bubbles of rows without patterns. Hundreds of lanes have tens of thousands, which cost least if they are written
/// into the rows' pixels. Their hatches run on through all rows, since a row is too low for a pattern of its own; a
/// colour alone would look like a task that is partly idle. Short bubbles have the plain background.
struct LowBubbles {
    std::vector<BubbleSpan> spans;  ///< by lane
    /// By cause that occurs: lines of pixels, as wide as the lanes, which repeat after a pattern's period.
    std::array<std::vector<std::vector<QRgb>>, kNumBubbleCauses> lines;

    const QRgb* line(BubbleCause cause, int y) const {
        const std::vector<std::vector<QRgb>>& all = lines[static_cast<std::size_t>(cause)];
        return all[static_cast<std::size_t>(y) % all.size()].data();
    }
};
LowBubbles lowBubbles(const TimelineScene& scene, const TimelineColors& colors, double scale);
/// Copies are lower than tasks, but their patterns are made for that.
inline bool hasPatterns(const Band& band) {
    return band.height >= kLowestPatternRow - 1;
}

/// Draws what goes under the bars' labels: bubbles by cause, and tasks by lateness. `low`: also bubbles of rows without
/// patterns.
void paintUnderLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors, bool low);
/// Draws what goes on top: outlines of the other timeline, the critical path, and arrows.
void paintOverLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors);

/// Calls `visit` for each row in view, from top to bottom.
void visitRows(const TimelineScene& scene,
               const std::function<void(const LaneBand&, const RowBand&, const StoredRow&)>& visit);
/// Calls `visit` for each slice of the row within the window that is at least `least` pixels wide. Skips rows too dense
/// for such slices, unless `least` is 0.
void visitVisible(const TimelineScene& scene, const RowBand& row, double least,
                  const std::function<void(const QRectF&, std::size_t index)>& visit);
}  // namespace pipescope
