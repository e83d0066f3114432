#pragma once

#include "gui/timeline/time_window.h"
#include "gui/timeline/timeline_store.h"

#include <QObject>
#include <QString>

#include <optional>
#include <vector>

namespace pipescope {
/// A task picked in one of the panes, and its twin in the other.
struct TaskSelection {
    Source source = Source::measured;
    SliceRef slice;
    std::optional<SliceRef> twin;

    /// What to mark in the pane of `pane`, if anything.
    std::optional<SliceRef> in(Source pane) const { return pane == source ? std::optional(slice) : twin; }
    friend bool operator==(const TaskSelection&, const TaskSelection&) = default;
};

/// A place on the time axis that someone wants to find again.
struct TimeMark {
    std::int64_t time = 0;  ///< ns of the recording
    QString note;

    friend bool operator==(const TimeMark&, const TimeMark&) = default;
};

/// The one time axis of all panes: what is visible, the pointer's time, the selected task. Views show it and ask it to
/// change; none of them keeps a range of its own, so they cannot drift apart.
/// Threading: the GUI thread only.
class TimeAxisModel : public QObject {
    Q_OBJECT

public:
    explicit TimeAxisModel(QObject* parent = nullptr);

    const TimeRange& total() const { return total_; }
    const TimeWindow& window() const { return window_; }
    /// Time zero of the ruler, in ns of the recording; the simulated step is drawn from here on.
    std::int64_t origin() const { return origin_; }
    std::optional<std::int64_t> cursor() const { return cursor_; }
    const std::optional<TaskSelection>& selection() const { return selection_; }
    /// By time.
    const std::vector<TimeMark>& marks() const { return marks_; }

    /// The range that is measured, if any: its duration and what lanes did in it are shown.
    const std::optional<TimeRange>& range() const { return range_; }

    /// Shows all of `total` and forgets the history.
    void setTotal(const TimeRange& total);
    void setOrigin(std::int64_t origin);
    void setCursor(std::optional<std::int64_t> time);
    /// Moves the cursor right by `ratio` of what is visible, within it; where none is in view it starts in the middle.
    void moveCursor(double ratio);
    void select(const std::optional<TaskSelection>& selection);
    void setMarks(std::vector<TimeMark> marks);
    /// Either end may come first.
    void setRange(std::optional<TimeRange> range);
    /// The cursor becomes the one end of the range, and at the next call the other.
    void markRangeEnd();

    /// `anchor` is the place that keeps its time, 0 left edge, 1 right edge; `factor` < 1 zooms in.
    void zoom(double anchor, double factor);
    /// Right by `ratio` of what is visible.
    void pan(double ratio);
    /// Puts the window where a scroll bar or a drag says, without a step of history per pixel.
    void scrollTo(const TimeWindow& window);
    void show(const TimeRange& range);
    void showAll();
    bool canGoBack() const { return !past_.empty(); }
    bool canGoForward() const { return !future_.empty(); }
    void goBack();
    void goForward();

Q_SIGNALS:
    void windowChanged();
    void originChanged();
    void cursorChanged();
    void selectionChanged();
    void marksChanged();
    void rangeChanged();

private:
    // A row of wheel clicks is one step of history, so that going back undoes the gesture and not its last click.
    enum class Gesture { none, zoom, pan, jump };
    void moveTo(const TimeWindow& window, Gesture gesture);

    TimeRange total_{0, 1};
    TimeWindow window_;
    std::int64_t origin_ = 0;
    std::optional<std::int64_t> cursor_;
    std::optional<TaskSelection> selection_;
    std::vector<TimeMark> marks_;
    std::optional<TimeRange> range_;
    std::optional<std::int64_t> marked_;  // the first end, while the second is to come
    Gesture lastGesture_ = Gesture::none;
    std::vector<TimeWindow> past_;
    std::vector<TimeWindow> future_;
};
}  // namespace pipescope
