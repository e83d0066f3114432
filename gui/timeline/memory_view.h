#pragma once

#include "gui/timeline/axis_view.h"
#include "gui/timeline/memory_track.h"

#include <QBrush>
#include <QString>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// How the bytes of a category are filled, and what they are, for people.
struct MemoryStyle {
    QColor color;
    QBrush over;  ///< the pattern on it; Qt::NoBrush: none
};
MemoryStyle styleOf(MemoryCategory category);
QString nameOf(MemoryCategory category);

/// What MemoryView draws. Tracks are borrowed and must outlive their time in the view.
struct MemoryScene {
    std::vector<LaneInfo> lanes;
    const std::vector<MemoryTrack>* measured = nullptr;
    const std::vector<MemoryTrack>* simulated = nullptr;
    std::int64_t simulatedShift = 0;  ///< added to simulated times
    std::vector<Bytes> limits;        ///< by lane, or empty
};

/// Memory of each lane over time, measured as an area and simulated as a line over it, on one scale for all lanes, with
/// peaks marked and the limit in red.
class MemoryView : public AxisView {
    Q_OBJECT

public:
    explicit MemoryView(TimeAxisModel& axis, QWidget* parent = nullptr);

    void setScene(MemoryScene scene);
    bool empty() const;
    /// Whether any track says what its bytes consist of.
    bool composed() const;
    /// Shows the measured bytes stacked by what they are for, the simulated ones where nothing was measured.
    void setStacked(bool stacked);
    bool stacked() const { return stacked_; }
    /// Where a lane stands in viewport pixels: from no bytes at its bottom to bytesAtTop().
    QRect laneBox(std::size_t lane) const;
    Bytes bytesAtTop() const;
    /// The lane has a limit that is near enough to what is held to stand on the scale.
    bool showsLimit(std::size_t lane) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void relayout() override;
    void paintEvent(QPaintEvent* event) override;
    bool viewportEvent(QEvent* event) override;

private:
    struct Scale {
        Bytes most = 1;
        QRect box;
        double y(Bytes bytes) const;
    };
    /// The measured peak, else the simulated one, for people.
    std::string peakOf(std::size_t lane) const;
    Bytes highest() const;
    Scale scaleOf(std::size_t lane) const;
    void paintLane(QPainter& painter, std::size_t lane) const;
    void paintArea(QPainter& painter, const MemoryTrack& track, const Scale& scale) const;
    void paintStack(QPainter& painter, const MemoryTrack& track, std::int64_t shift, const Scale& scale) const;
    void paintLine(QPainter& painter, const MemoryTrack& track, const Scale& scale) const;
    void paintPeak(QPainter& painter, const MemoryTrack& track, std::int64_t shift, const Scale& scale,
                   bool below) const;

    MemoryScene scene_;
    int laneHeight_ = 24;
    bool stacked_ = false;
};
}  // namespace pipescope
