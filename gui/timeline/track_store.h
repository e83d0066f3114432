#pragma once

#include "gui/timeline/item_row.h"
#include "gui/timeline/time_window.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Where the ranges of a row run.
enum class RanOn {
    host,
    device,       ///< work
    annotations,  ///< ranges of the host, as a device ran what they launched: no work of their own
};

/// One row of ranges of a thread or stream; nested ranges are one row lower. 20 bytes per range, and 4 more with
/// events. All are busy.
struct TrackRow : ItemRow {
    std::string group;                      ///< "process 17 (python)", "GPU 0 (NVIDIA H200)"
    std::string name;                       ///< "thread 18 (main)", "stream 7"
    std::vector<std::uint32_t> text;        ///< index into TrackStore::texts
    std::vector<std::uint32_t> event = {};  ///< TraceRange::event; empty if the file has none
    std::uint16_t file = 0;                 ///< of the events: index into TrackStore::eventFiles, unless that is empty
    RanOn on = RanOn::host;
};

/// The least and greatest values within one pixel column.
struct CounterColumn {
    double low = 0;
    double high = 0;
    bool known = false;  ///< false before the first point
};

/// A quantity over time. Each value holds until the next point. 16 bytes per point.
class CounterRow {
public:
    CounterRow(std::string group, std::string name);
    /// `time` must not be before that of the previous point; of several at one time, the last one holds.
    void add(std::int64_t time, double value);

    const std::string& group() const { return group_; }
    const std::string& name() const { return name_; }
    std::size_t size() const { return time_.size(); }
    TimeRange range() const { return time_.empty() ? TimeRange{} : TimeRange{time_.front(), time_.back()}; }
    /// True if the name says that the values are bytes.
    bool isBytes() const;
    double lowest() const { return lowest_; }
    double highest() const { return highest_; }
    /// Empty before the first point.
    std::optional<double> valueAt(std::int64_t time) const;
    /// Cost: O(columns times log points).
    std::vector<CounterColumn> columns(const TimeWindow& window, int columns) const;

private:
    std::size_t firstFrom(std::int64_t time) const;
    CounterColumn extremesOf(std::size_t first, std::size_t end) const;

    std::string group_;
    std::string name_;
    std::vector<std::int64_t> time_;
    std::vector<double> value_;
    std::vector<CounterColumn> blocks_;  // of 64 points each, to draw a whole run quickly
    double lowest_ = 0;
    double highest_ = 0;
};

/// An arrow from one range to another, such as from a call to the kernel that it launched.
struct TrackArrow {
    SliceRef from;
    SliceRef to;

    friend auto operator<=>(const TrackArrow&, const TrackArrow&) = default;
};

/// The most arrows of a range that are drawn, in each direction.
inline constexpr std::size_t kMostRangeArrows = 24;

/// Activity of threads and streams beyond the schedule's tasks: calls, ranges, kernels, copies, counters. Threading:
/// immutable once built; shared between threads.
struct TrackStore {
    std::vector<TrackRow> rows;  ///< rows of one group are together
    std::vector<std::string> texts;
    std::vector<CounterRow> counters = {};
    std::vector<TrackArrow> arrows = {};       ///< sorted
    std::vector<TrackArrow> arrivals = {};     ///< the same, with both ends swapped, sorted
    std::vector<std::string> eventFiles = {};  ///< OpenedTrace::event_files

    /// Adds arrows; the same one once.
    void setArrows(std::vector<TrackArrow> all);
    TimeRange range() const;
    bool empty() const { return rows.empty() && counters.empty(); }
    const std::string& textOf(const SliceRef& range) const { return texts.at(rows.at(range.row).text.at(range.index)); }
    TimeRange rangeOf(const SliceRef& range) const { return rows.at(range.row).range(range.index); }
    bool has(const SliceRef& range) const {
        return range.row < rows.size() && range.index < rows[range.row].start.size();
    }
    /// The ranges to which arrows lead from this one, at most `most`.
    std::vector<SliceRef> arrowsFrom(const SliceRef& range, std::size_t most) const;
    std::vector<SliceRef> arrowsTo(const SliceRef& range, std::size_t most) const;
};

/// The rows of one thread or stream: from `first` to before `end`.
struct TrackRows {
    std::size_t first = 0;
    std::size_t end = 0;
};
std::vector<TrackRows> threadsOf(const TrackStore& store);
/// The part of `within` in which at least one range of these rows runs, except for those with a text in `leftOut`,
/// which has an entry for each text, or none. Cost: as coveredIn().
std::int64_t busyIn(const TrackStore& store, const TrackRows& rows, const TimeRange& within,
                    const std::vector<bool>& leftOut = {});

/// The next range with the text of this one in time order, on any row; the previous one if `by` is negative. Empty
/// after the last one. Cost: O(ranges).
std::optional<SliceRef> nextOfText(const TrackStore& store, const SliceRef& from, int by);

/// A rectangle that represents one range, or several that share a pixel.
struct TrackRun {
    double left = 0;  ///< pixels
    double right = 0;
    std::size_t index = 0;  ///< of the range, or of the first one
    bool folded = false;    ///< represents several ranges
    double share = 1;       ///< of the rectangle that they cover, if folded
};
/// Visible rectangles of a row in a window of `width` pixels. Ranges of less than two pixels that share a cell of four
/// are one rectangle. Cost: O(pixels times log ranges).
std::vector<TrackRun> visibleRuns(const TrackRow& row, const TimeWindow& window, int width);
}  // namespace pipescope
