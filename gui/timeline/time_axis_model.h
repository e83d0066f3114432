#pragma once

#include "analysis/bubble_causes.h"
#include "gui/timeline/time_window.h"
#include "gui/timeline/timeline_store.h"
#include "gui/timeline/track_store.h"

#include <QObject>
#include <QString>

#include <optional>
#include <vector>

namespace pipescope {
/// A task selected in one pane, and its twin in the other.
struct TaskSelection {
    Source source = Source::measured;
    SliceRef slice;
    std::optional<SliceRef> twin;

    /// The slice to mark in the pane, if any.
    std::optional<SliceRef> in(Source pane) const { return pane == source ? std::optional(slice) : twin; }
    friend bool operator==(const TaskSelection&, const TaskSelection&) = default;
};

/// The selection if it is not a task.
struct PartSelection {
    enum class Kind {
        bubble,
        lane,
        links,  ///< the links on which the lane sends
        range,  ///< of a thread or stream
    };
    Kind kind = Kind::lane;
    Source source = Source::measured;
    LaneId lane;
    Bubble bubble;                            ///< of kind bubble, in times of its store
    std::optional<Bubble> twin;               ///< the bubble's counterpart in the other timeline
    SliceRef range = {};                      ///< of kind range, which has no lane and no source
    std::optional<LaneId> comparedWith = {};  ///< of kind lane: the lane of the user's choice

    bool isLane() const { return kind == Kind::lane || kind == Kind::links; }
    /// The bubble to mark in the pane, if any.
    std::optional<Bubble> bubbleIn(Source pane) const {
        return kind != Kind::bubble ? std::nullopt : pane == source ? std::optional(bubble) : twin;
    }
    friend bool operator==(const PartSelection&, const PartSelection&) = default;
};

/// A bookmark on the time axis, or a note on a range of it.
struct TimeMark {
    std::int64_t time = 0;  ///< ns of the recording
    QString note;
    std::int64_t length = 0;  ///< ns; 0: a bookmark

    TimeRange range() const { return {time, time + length}; }

    friend bool operator==(const TimeMark&, const TimeMark&) = default;
};

/// What the times on an axis count from.
enum class TimeStyle {
    step,   ///< the start of the chosen step
    file,   ///< the start of the recording
    clock,  ///< time of day where the viewer runs; as `file` if the recording does not say when it started
};

// A notch of a wheel, and the factor by which it zooms.
inline constexpr double kNotch = 120;  // QWheelEvent: eighths of a degree, 15 degrees per notch
inline constexpr double kZoomPerNotch = 0.8;

/// The time axis shared by all panes: visible window, cursor time, selection. Views display it and request changes;
/// none has a range of its own, so they cannot diverge. Threading: the GUI thread.
class TimeAxisModel : public QObject {
    Q_OBJECT

public:
    explicit TimeAxisModel(QObject* parent = nullptr);

    const TimeRange& total() const { return total_; }
    const TimeWindow& window() const { return window_; }
    /// Time zero of the ruler, in ns of the recording. The simulated step is drawn from here.
    std::int64_t origin() const { return origin_; }
    TimeStyle timeStyle() const { return style_ == TimeStyle::clock && !epoch_ ? TimeStyle::file : style_; }
    /// ns of the recording at which shown times are 0; with the clock, 1970 in UTC.
    std::int64_t zero() const;
    /// A time of the recording as text, with the digits of `length`: "12.345 ms", or "14:03:05.012345".
    QString instantText(std::int64_t time, std::int64_t length) const;
    std::optional<std::int64_t> cursor() const { return cursor_; }
    const std::optional<TaskSelection>& selection() const { return selection_; }
    /// Empty while a task is selected.
    const std::optional<PartSelection>& part() const { return part_; }
    /// Sorted by time.
    const std::vector<TimeMark>& marks() const { return marks_; }

    /// The range to measure, if any. Its duration and the lanes' activity in it are shown.
    const std::optional<TimeRange>& range() const { return range_; }

    /// Shows all of `total` and clears the history.
    void setTotal(const TimeRange& total);
    /// The content changed: shows the nearest part to `window`. That is no entry in the history, which stays.
    void changeTotal(const TimeRange& total, const TimeWindow& window);
    void setOrigin(std::int64_t origin);
    void setTimeStyle(TimeStyle style);
    /// UTC at time 0 of the recording, in ns since 1970; empty: unknown.
    void setEpoch(std::optional<std::int64_t> epoch);
    void setCursor(std::optional<std::int64_t> time);
    /// Moves the cursor right by `ratio` of the visible window, within it. Starts in the middle if no cursor is
    /// visible.
    void moveCursor(double ratio);
    /// Replaces any selection; nullopt clears it.
    void select(const std::optional<TaskSelection>& selection) { select(selection, std::nullopt); }
    void select(const PartSelection& part) { select(std::nullopt, part); }
    void setMarks(std::vector<TimeMark> marks);
    /// Accepts the ends in either order.
    void setRange(std::optional<TimeRange> range);
    /// Makes the cursor one end of the range; the next call sets the other end.
    void markRangeEnd();

    /// `anchor` keeps its time: 0 is the left edge, 1 the right edge. `factor` < 1 zooms in.
    void zoom(double anchor, double factor) { moveTo(zoomed(window_, anchor, factor), Gesture::zoom); }
    /// Moves right by `ratio` of the visible window.
    void pan(double ratio) { moveTo(panned(window_, ratio), Gesture::pan); }
    /// Moves the window for a scroll bar or drag, without an entry in the history for every pixel.
    void scrollTo(const TimeWindow& window) { moveTo(window, Gesture::pan); }
    void show(const TimeRange& range) { moveTo(windowOf(range), Gesture::jump); }
    bool showsAll() const { return window_ == windowOf(total_); }
    void showAll() { moveTo(windowOf(total_), Gesture::jump); }
    /// True if there is another part to go back to.
    bool canGoBack() const { return leads(past_); }
    bool canGoForward() const { return leads(future_); }
    void goBack() { travel(past_, future_); }
    void goForward() { travel(future_, past_); }

Q_SIGNALS:
    void windowChanged();
    /// The origin, or what times count from.
    void originChanged();
    void cursorChanged();
    void selectionChanged();
    void marksChanged();
    void rangeChanged();

private:
    // A series of wheel clicks is one history entry, so that going back undoes the gesture and not its last click.
    enum class Gesture { none, zoom, pan, jump };
    void moveTo(const TimeWindow& window, Gesture gesture);
    void select(const std::optional<TaskSelection>& task, const std::optional<PartSelection>& part);
    bool leads(const std::vector<TimeWindow>& from) const;
    void travel(std::vector<TimeWindow>& from, std::vector<TimeWindow>& to);

    TimeRange total_{0, 1};
    TimeWindow window_;
    std::int64_t origin_ = 0;
    TimeStyle style_ = TimeStyle::step;
    std::optional<std::int64_t> epoch_;
    std::optional<std::int64_t> cursor_;
    std::optional<TaskSelection> selection_;
    std::optional<PartSelection> part_;
    std::vector<TimeMark> marks_;
    std::optional<TimeRange> range_;
    std::optional<std::int64_t> marked_;  // the first end, until the second is set
    Gesture lastGesture_ = Gesture::none;
    std::vector<TimeWindow> past_;
    std::vector<TimeWindow> future_;
};
}  // namespace pipescope
