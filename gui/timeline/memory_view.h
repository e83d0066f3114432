#pragma once

#include "gui/timeline/axis_view.h"
#include "gui/timeline/lane_arrangement.h"
#include "gui/timeline/memory_track.h"

#include <QBrush>
#include <QString>

#include <string>
#include <vector>

namespace pipescope {
/// Fill and name of a memory category.
struct MemoryStyle {
    QColor color;
    QBrush over;  ///< pattern over the colour; Qt::NoBrush: none
};
MemoryStyle styleOf(MemoryCategory category);
QString nameOf(MemoryCategory category);

/// Input of MemoryView. Tracks are borrowed and must outlive their use in the view.
struct MemoryScene {
    std::vector<LaneInfo> lanes;
    const std::vector<MemoryTrack>* measured = nullptr;
    const std::vector<MemoryTrack>* simulated = nullptr;
    std::int64_t simulatedShift = 0;  ///< added to simulated times
    std::vector<Bytes> limits;        ///< by lane, or empty
    /// By lane, or empty: peaks of the simulation. They lie above the track of a schedule that never drains, if they
    /// are reached while its pipeline fills, before the window that is shown.
    std::vector<Bytes> simulatedPeaks = {};
    QString measuredName = {};  ///< of the tracks, such as "measured"
    QString simulatedName = {};
};

/// Memory of each lane over time: measured as an area, simulated as a line, on one scale for all lanes. Marks the
/// peaks, and the limit in red.
class MemoryView : public AxisView {
    Q_OBJECT

public:
    explicit MemoryView(TimeAxisModel& axis, QWidget* parent = nullptr);

    void setScene(MemoryScene scene);
    /// Sets the order of the lanes. Pinned lanes are the first, but scroll.
    void setArrangement(const LaneArrangement& arrangement);
    bool empty() const;
    /// True if any track has compositions.
    bool composed() const;
    /// Stacks the measured bytes by category, or the simulated bytes if nothing was measured.
    void setStacked(bool stacked);
    bool stacked() const { return stacked_; }
    /// Rectangle of a lane in viewport pixels, from 0 bytes at its bottom to bytesAtTop().
    QRect laneBox(std::size_t lane) const;
    Bytes bytesAtTop() const;
    /// True if the lane has a limit that fits on the scale.
    bool showsLimit(std::size_t lane) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;
    std::vector<DrawnName> drawnNames() const override;

protected:
    void relayout() override;
    void paintEvent(QPaintEvent* event) override;
    QString toolTipAt(const QPoint& position) const override;

private:
    struct Scale {
        Bytes most = 1;
        QRect box;
        double y(Bytes bytes) const;
    };
    /// Text of the measured peak, or of the simulated one if nothing was measured.
    std::string peakOf(std::size_t lane) const;
    Bytes simulatedPeak(const MemoryTrack& track, std::size_t lane) const;
    Bytes findHighest() const;
    Scale scaleOf(std::size_t lane) const { return {bytesAtTop(), laneBox(lane)}; }
    void paintLane(QPainter& painter, std::size_t lane) const;
    void paintArea(QPainter& painter, const MemoryTrack& track, const Scale& scale) const;
    void paintStack(QPainter& painter, const MemoryTrack& track, std::int64_t shift, const Scale& scale) const;
    void paintLine(QPainter& painter, const MemoryTrack& track, const Scale& scale) const;
    void paintPeak(QPainter& painter, const MemoryTrack& track, std::int64_t shift, const Scale& scale,
                   bool below) const;

    MemoryScene scene_;
    Bytes highest_ = 1;  // of all lanes
    LaneArrangement arrangement_;
    std::vector<int> places_;  // by lane: from the top
    int laneHeight_ = 24;
    int gap_ = 3;
    bool stacked_ = false;
};
}  // namespace pipescope
