#pragma once

#include "gui/timeline/item_row.h"
#include "gui/timeline/share_pyramid.h"
#include "gui/timeline/time_window.h"
#include "schedule/timeline.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// A step, from the first forward's start to the end of the last backward or all-reduce; with staggered updates as by
/// statistics_by_step().
struct StepSpan {
    std::int32_t step = 0;
    StepStatistics statistics;

    TimeRange range() const { return {statistics.start.count(), statistics.end.count()}; }
};

/// One row of a drawn timeline: slices of one lane (25 bytes each, plus the pyramid). Those of compute tasks are busy.
struct StoredRow : ItemRow {
    LaneId lane;
    bool copies = false;                  ///< copies and skips have separate rows below their lane's tasks
    std::vector<std::uint8_t> kind;       ///< shown kinds (task_style.h)
    std::vector<std::uint64_t> key;       ///< pack()ed
    std::vector<std::int64_t> bytes;      ///< empty if all are 0
    std::vector<TaskKind> kinds;          ///< shown kinds that occur, ascending
    KindSet drawn;                        ///< those of which a slice has a bar or a tick
    bool hasTicks = false;                ///< a slice isTick()
    std::optional<SharePyramid> pyramid;  ///< empty if the row is short enough to be read slice by slice

    SliceColumns columns() const { return {start, end, kind}; }
    bool computes(std::size_t slice) const { return is_compute(keyKindOf(static_cast<TaskKind>(kind[slice]))); }
    /// True for a task without duration, which is drawn as a tick. Free copies and losses of a simulation are not.
    bool isTick(std::size_t slice) const {
        const auto of = static_cast<TaskKind>(kind[slice]);
        return start[slice] == end[slice] && !is_copy(of) && of != TaskKind::loss;
    }
};

/// A timeline as the viewer draws it. Contains all it needs, so that the Timeline can be freed.
/// Threading: immutable once built; shared between threads.
class TimelineStore {
public:
    TimelineStore() = default;
    /// For a large timeline, fill a TimelineStoreBuilder directly instead.
    explicit TimelineStore(const Timeline& timeline, Update update = Update::synchronous);
    /// All slices are of one step with these statistics, whatever the steps of their keys: the window of a schedule
    /// that never drains holds tasks of several steps. `staggered`: the only step; the slices of others overlap it.
    TimelineStore(const Timeline& timeline, const StepStatistics& step,
                  std::optional<std::int32_t> staggered = std::nullopt);

    Source source() const { return source_; }
    const std::vector<LaneInfo>& lanes() const { return lanes_; }
    /// "lane 3", or another name that the file gives it, such as "rank 3"; without rank and host of a merged trace.
    std::string nameOf(LaneId lane) const;
    const std::vector<StoredRow>& rows() const { return rows_; }
    const std::vector<StepSpan>& steps() const { return steps_; }
    const StepSpan* step(std::int32_t number) const;
    /// The partition's place among those of its lane, from 0 to 1, which the last one has where a lane has the most.
    /// Empty if the lane runs only one, or not this one.
    std::optional<double> placeOf(LaneId lane, std::int32_t partition) const;
    /// Partitions that the lane runs, ascending.
    const std::vector<std::int32_t>& partitionsOf(LaneId lane) const { return partitions_.at(lane.index()); }
    /// True if tasks of consecutive steps overlap, since updates are staggered.
    bool overlaps() const { return overlaps_; }
    /// True if the task belongs to this step, one of steps().
    bool isOf(const TaskKey& key, std::int32_t step) const;
    /// From the first start to the last end; {0, 0} without slices.
    TimeRange range() const { return range_; }
    std::size_t numSlices() const { return numSlices_; }
    /// Slices that cannot be drawn: of an invalid lane, or overlapping many others of their lane.
    std::size_t numHidden() const { return numHidden_; }

    Slice slice(SliceRef ref) const;
    /// The slice's key with its shown kind, for names: kInputHalf if the step has a task for the weights' gradients.
    TaskKey shownKey(SliceRef ref) const;
    /// The task's slice; empty if it did not run. In a window of several steps any step's, if the key's own step has
    /// none. Cost: O(slices of the step); if it is not among them, O(slices), 1 ns each.
    std::optional<SliceRef> find(const TaskKey& key) const;
    /// Exact busy time of the lane within the range, as in a bubble fraction. Overlapping tasks of the lane count once.
    /// Cost: O(log slices), or O(slices in the range) if tasks overlap.
    std::int64_t busyIn(LaneId lane, const TimeRange& range) const;
    std::size_t sizeBytes() const;

private:
    std::optional<SliceRef> findExact(const TaskKey& key) const;
    friend class TimelineStoreBuilder;

    Source source_ = Source::measured;
    std::vector<LaneInfo> lanes_;
    std::vector<StoredRow> rows_;
    std::vector<std::vector<std::int32_t>> partitions_;  // by lane
    std::size_t mostPartitions_ = 0;                     // of a lane
    std::vector<StepSpan> steps_;
    bool oneStep_ = false;
    bool overlaps_ = false;
    std::vector<std::int32_t> stepNumbers_;  // of the keys, in order of time, where all are one step
    TimeRange range_;
    std::size_t numSlices_ = 0;
    std::size_t numHidden_ = 0;
};
}  // namespace pipescope
