#pragma once

#include "gui/timeline/lane_arrangement.h"
#include "gui/timeline/timeline_store.h"

#include <QSplitter>

#include <array>

class QLabel;
class QScrollBar;

namespace pipescope {
class AxisView;
class MemoryPane;
class TimeAxisModel;
class TimelinePane;
class TimelineView;
class TrackView;
struct TraceDocument;

/// The views of a page on one time axis, one below the other: measured and simulated timeline, memory, threads and
/// streams. Keeps their times aligned: equal gutters, scroll bars in all or none, both timelines scrolled together.
class TimelineStack : public QSplitter {
    Q_OBJECT

public:
    explicit TimelineStack(TimeAxisModel& axis, QWidget* parent = nullptr);

    TimelinePane& pane(Source source) const { return source == Source::measured ? *measured_ : *simulated_; }
    TimelineView& view(Source source) const;
    MemoryPane& memory() const { return *memory_; }
    TrackView& tracks() const { return *tracks_; }
    /// Threads and streams with their header line.
    QWidget& trackPane() const { return *trackPane_; }

    /// Shows what was recorded: timeline, kernels, threads and streams. setSimulated() must follow.
    void setMeasured(const TraceDocument& document);
    /// Shows the simulated timeline, and aligns all views.
    void setSimulated(const TraceDocument& document);
    /// Sets order, height and visibility of the lanes in all views.
    void setArrangement(const LaneArrangement& arrangement);
    /// Width of the lane name column.
    int gutter() const { return gutter_; }
    /// Gives the timelines the height they need, then the memory, and everyone a part of the rest.
    void shareHeight();

private:
    std::array<AxisView*, 4> views() const;
    /// Makes rows of tasks in both timelines equally high.
    void alignRows();
    void syncScrollBars();
    void scrollAlong(const QScrollBar& moved, QScrollBar& other);

    TimelinePane* measured_;
    TimelinePane* simulated_;
    MemoryPane* memory_;
    QWidget* trackPane_;
    TrackView* tracks_;
    QLabel* tracksTitle_;
    int gutter_ = 0;
    bool scrolling_ = false;
    bool aligning_ = false;
};
}  // namespace pipescope
