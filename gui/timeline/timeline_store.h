#pragma once

#include "gui/timeline/share_pyramid.h"
#include "gui/timeline/time_window.h"
#include "schedule/timeline.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// The first forward's start to the last backward's end of a step, or the last all-reduce's.
struct StepSpan {
    std::int32_t step = 0;
    StepStatistics statistics;

    TimeRange range() const { return {statistics.start.count(), statistics.end.count()}; }
};

/// Slices between two numbers of StoredRow::busy.
inline constexpr std::size_t kBusyBlock = 64;

/// One row of a drawn timeline: slices of one lane that do not overlap, in columns (25 bytes a slice, plus the
/// pyramid).
struct StoredRow {
    LaneId lane;
    bool copies = false;  ///< copies and skips have rows of their own below their lane's tasks
    int depth = 0;        ///< counts the rows of a lane whose slices overlap
    std::vector<std::int64_t> start;
    std::vector<std::int64_t> end;
    std::vector<std::uint8_t> kind;
    std::vector<std::uint64_t> key;       ///< pack()ed
    std::vector<std::int64_t> bytes;      ///< empty if all are 0
    std::vector<std::int64_t> busy;       ///< ns in compute tasks before every 64th slice
    std::vector<TaskKind> kinds;          ///< that occur, ascending
    std::optional<SharePyramid> pyramid;  ///< nothing where the row is short enough to be read through

    SliceColumns columns() const { return {start, end, kind}; }
};

/// A timeline as the viewer draws it. It holds all the viewer needs, so that the Timeline can be dropped.
/// Threading: immutable once built; shared between threads.
class TimelineStore {
public:
    TimelineStore() = default;
    /// A large timeline is better read straight into a TimelineStoreBuilder.
    explicit TimelineStore(const Timeline& timeline);
    /// All slices are of one step with these statistics, whatever the steps of their keys: the window of a schedule
    /// that never drains holds tasks of several steps.
    TimelineStore(const Timeline& timeline, const StepStatistics& step);

    Source source() const { return source_; }
    const std::vector<LaneInfo>& lanes() const { return lanes_; }
    const std::vector<StoredRow>& rows() const { return rows_; }
    const std::vector<StepSpan>& steps() const { return steps_; }
    const StepSpan* step(std::int32_t number) const;
    /// Whether the task belongs to this step of steps().
    bool isOf(const TaskKey& key, std::int32_t step) const;
    /// From the first start to the last end; {0, 0} without slices.
    TimeRange range() const { return range_; }
    std::size_t numSlices() const { return numSlices_; }
    /// Slices that cannot be drawn: of an impossible lane, or overlapping many others of their lane.
    std::size_t numHidden() const { return numHidden_; }

    Slice slice(SliceRef ref) const;
    /// The slice of this task; nothing if it did not run. In a window of several steps that of any of them, if the
    /// key's own step has none. Cost: O(slices of the step), and where it is not among them O(slices), 1 ns each.
    std::optional<SliceRef> find(const TaskKey& key) const;
    /// The slice of the row that covers `time`, or is nearest to it within `reach` ns.
    std::optional<SliceRef> sliceAt(std::uint32_t row, std::int64_t time, std::int64_t reach) const;
    /// Time in which the lane computed within the range, exactly, as busy is counted in a bubble fraction; where tasks
    /// of the lane overlap, what they share counts once. Cost: O(log slices), or O(slices in the range) where they do.
    std::int64_t busyIn(LaneId lane, const TimeRange& range) const;
    std::size_t sizeBytes() const;

private:
    std::optional<SliceRef> findExact(const TaskKey& key) const;
    friend class TimelineStoreBuilder;

    Source source_ = Source::measured;
    std::vector<LaneInfo> lanes_;
    std::vector<StoredRow> rows_;
    std::vector<StepSpan> steps_;
    bool oneStep_ = false;
    std::vector<std::int32_t> stepNumbers_;  // of the keys, in order of time, where all are one step
    TimeRange range_;
    std::size_t numSlices_ = 0;
    std::size_t numHidden_ = 0;
};
}  // namespace pipescope
