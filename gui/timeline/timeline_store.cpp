#include "gui/timeline/timeline_store.h"

#include "analysis/covered_time.h"
#include "gui/timeline/timeline_store_builder.h"

#include <algorithm>

namespace pipescope {
TimelineStore::TimelineStore(const Timeline& timeline, Update update) {
    TimelineStoreBuilder builder(timeline.source, timeline.lanes);
    builder.add(timeline.slices);
    *this = builder.finish(update);
}

TimelineStore::TimelineStore(const Timeline& timeline, const StepStatistics& step,
                             std::optional<std::int32_t> staggered)
    : TimelineStore(timeline) {
    if (steps_.empty()) {
        return;
    }
    const auto first = std::min_element(steps_.begin(), steps_.end(),
                                        [](const StepSpan& a, const StepSpan& b) { return a.step < b.step; });
    for (const StepSpan& each : steps_) {
        stepNumbers_.push_back(each.step);
    }
    steps_ = {{staggered.value_or(first->step), step}};
    steps_.front().statistics.lanes.resize(lanes_.size());
    overlaps_ = staggered.has_value();
    oneStep_ = !overlaps_;
}

std::string TimelineStore::nameOf(LaneId lane) const {
    const bool known = lane.value() >= 0 && lane.index() < lanes_.size() && !lanes_[lane.index()].name.empty();
    return known ? lanes_[lane.index()].name.substr(0, lanes_[lane.index()].name.find(" (rank "))
                 : "lane " + std::to_string(lane.value());
}

std::optional<double> TimelineStore::placeOf(LaneId lane, std::int32_t partition) const {
    const std::vector<std::int32_t>& all = partitions_.at(lane.index());
    const auto found = std::ranges::lower_bound(all, partition);
    if (all.size() < 2 || found == all.end() || *found != partition) {
        return std::nullopt;
    }
    return static_cast<double>(found - all.begin()) / static_cast<double>(mostPartitions_ - 1);
}

bool TimelineStore::isOf(const TaskKey& key, std::int32_t step) const {
    return oneStep_ ? step == steps_.front().step : key.step == step;
}

const StepSpan* TimelineStore::step(std::int32_t number) const {
    const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const StepSpan& s) { return s.step == number; });
    return found == steps_.end() ? nullptr : &*found;
}

Slice TimelineStore::slice(SliceRef ref) const {
    const StoredRow& row = rows_.at(ref.row);
    const TaskKey key = unpack(row.key.at(ref.index)).value_or(TaskKey{});
    return {key, row.lane, Nanoseconds{row.start[ref.index]}, Nanoseconds{row.end[ref.index]},
            row.bytes.empty() ? 0 : row.bytes[ref.index]};
}

TaskKey TimelineStore::shownKey(SliceRef ref) const {
    const StoredRow& row = rows_.at(ref.row);
    TaskKey key = unpack(row.key.at(ref.index)).value_or(TaskKey{});
    key.kind = static_cast<TaskKind>(row.kind[ref.index]);
    return key;
}

std::optional<SliceRef> TimelineStore::find(const TaskKey& key) const {
    if (const std::optional<SliceRef> found = findExact(key)) {
        return found;
    }
    if (oneStep_) {
        TaskKey other = key;
        for (const std::int32_t number : stepNumbers_) {
            other.step = number;
            if (const std::optional<SliceRef> found = findExact(other)) {
                return found;
            }
        }
    }
    return std::nullopt;
}

std::optional<SliceRef> TimelineStore::findExact(const TaskKey& key) const {
    const std::uint64_t packed = pack(key);
    // A step's tasks lie within its span, except for a late optimizer or copy.
    const StepSpan* span = step(key.step);
    const TimeRange within = span != nullptr ? span->range() : range_;
    for (const TimeRange& range : {within, range_}) {
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const StoredRow& stored = rows_[row];
            const auto first = std::lower_bound(stored.end.begin(), stored.end.end(), range.start);
            const auto last = std::upper_bound(stored.start.begin(), stored.start.end(), range.end);
            const auto from = stored.key.begin() + (first - stored.end.begin());
            const auto to = stored.key.begin() + std::max(first - stored.end.begin(), last - stored.start.begin());
            const auto found = std::find(from, to, packed);
            if (found != to) {
                return SliceRef{static_cast<std::uint32_t>(row),
                                static_cast<std::uint32_t>(found - stored.key.begin())};
            }
        }
    }
    return std::nullopt;
}

std::optional<SliceRef> TimelineStore::sliceAt(std::uint32_t row, std::int64_t time, std::int64_t reach) const {
    const StoredRow& stored = rows_.at(row);
    const auto after = std::upper_bound(stored.end.begin(), stored.end.end(), time);
    const auto next = static_cast<std::size_t>(after - stored.end.begin());
    std::optional<SliceRef> nearest;
    std::int64_t best = reach;
    // The previous slice, which has ended, and the one that ends next.
    for (std::size_t i = next == 0 ? 0 : next - 1; i <= next && i < stored.start.size(); ++i) {
        const std::int64_t away = std::max({std::int64_t{0}, stored.start[i] - time, time - stored.end[i]});
        if (away < best || (away == 0 && best == 0) || (away == best && !nearest)) {
            best = away;
            nearest = SliceRef{row, static_cast<std::uint32_t>(i)};
        }
    }
    return nearest;
}

namespace {
/// Busy time of one row, whose slices do not overlap.
std::int64_t busyOf(const StoredRow& row, const TimeRange& range) {
    const auto first =
        static_cast<std::size_t>(std::upper_bound(row.end.begin(), row.end.end(), range.start) - row.end.begin());
    const auto end =
        static_cast<std::size_t>(std::lower_bound(row.start.begin(), row.start.end(), range.end) - row.start.begin());
    const auto part = [&](std::size_t i) {
        const bool counts = is_compute(keyKindOf(static_cast<TaskKind>(row.kind[i])));
        return counts ? std::min(range.end, row.end[i]) - std::max(range.start, row.start[i]) : std::int64_t{0};
    };
    std::int64_t busy = 0;
    std::size_t i = first;
    for (; i < end; ++i) {
        const std::size_t block = i / kBusyBlock;
        if (i % kBusyBlock == 0 && i > first && (block + 1) * kBusyBlock < end) {
            const std::size_t last = (end - 1) / kBusyBlock;  // whole blocks, entirely inside the range
            busy += row.busy[last] - row.busy[block];
            i = last * kBusyBlock;
        }
        busy += part(i);
    }
    return busy;
}
}  // namespace

std::int64_t TimelineStore::busyIn(LaneId lane, const TimeRange& range) const {
    std::vector<const StoredRow*> rows;
    for (const StoredRow& row : rows_) {
        if (row.lane == lane && !row.copies) {
            rows.push_back(&row);
        }
    }
    if (rows.size() == 1) {
        return busyOf(*rows.front(), range);
    }
    std::vector<TimeRange> pieces;
    for (const StoredRow* row : rows) {
        const auto first = std::upper_bound(row->end.begin(), row->end.end(), range.start) - row->end.begin();
        for (auto i = static_cast<std::size_t>(first); i < row->start.size() && row->start[i] < range.end; ++i) {
            if (is_compute(keyKindOf(static_cast<TaskKind>(row->kind[i])))) {
                pieces.push_back({std::max(range.start, row->start[i]), std::min(range.end, row->end[i])});
            }
        }
    }
    std::sort(pieces.begin(), pieces.end(), [](const TimeRange& a, const TimeRange& b) { return a.start < b.start; });
    std::int64_t busy = 0;
    CoveredTime covered;
    for (const TimeRange& piece : pieces) {
        busy += covered.add(piece);
    }
    return busy;
}

std::size_t TimelineStore::sizeBytes() const {
    std::size_t bytes = 0;
    for (const StoredRow& row : rows_) {
        bytes += (row.start.size() + row.end.size() + row.key.size() + row.bytes.size() + row.busy.size()) *
                     sizeof(std::int64_t) +
                 row.kind.size() + (row.pyramid ? row.pyramid->sizeBytes() : 0);
    }
    return bytes;
}
}  // namespace pipescope
