#pragma once

#include "gui/timeline/lane_arrangement.h"
#include "gui/timeline/timeline_store.h"

#include <QSplitter>

#include <array>
#include <optional>

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
    /// The height in which every lane is readable, of eight lanes or fewer, and some threads and streams; without
    /// memory.
    int readableHeight() const;
    /// What is missing there for all lanes with their copies and kernels.
    int moreForWholeLanes() const;
    /// Gives the timelines the height they need, then the memory, and everyone a part of the rest.
    void shareHeight();
    /// True if the user moved a border since then.
    bool isSizedByUser() const { return isSizedByUser_; }

private:
    std::array<AxisView*, 4> views() const;
    /// Makes rows of tasks in both timelines equally high.
    void alignRows();
    int headerHeight() const;
    /// Of a timeline with all lanes, their copies and kernels, if rows are as high; 0 if it is not shown.
    int wholeLanesHeight(Source source, std::optional<int> row = {}) const;
    /// Of some rows of threads and streams with their header; 0 without any.
    int fewTracksHeight() const;
    void syncScrollBars();
    void scrollAlong(const QScrollBar& moved, QScrollBar& other);

    TimelinePane* measured_;
    TimelinePane* simulated_;
    MemoryPane* memory_;
    QWidget* trackPane_;
    TrackView* tracks_;
    QLabel* tracksTitle_;
    LaneArrangement arrangement_;
    int gutter_ = 0;
    bool isSizedByUser_ = false;
    bool scrolling_ = false;
    bool aligning_ = false;
};
}  // namespace pipescope
