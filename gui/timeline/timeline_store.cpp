#include "gui/timeline/timeline_store.h"

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
            const ItemSpan near = stored.touching(range);
            const auto from = stored.key.begin() + static_cast<std::ptrdiff_t>(near.first);
            const auto to = stored.key.begin() + static_cast<std::ptrdiff_t>(near.end);
            const auto found = std::find(from, to, packed);
            if (found != to) {
                return SliceRef{static_cast<std::uint32_t>(row),
                                static_cast<std::uint32_t>(found - stored.key.begin())};
            }
        }
    }
    return std::nullopt;
}

std::int64_t TimelineStore::busyIn(LaneId lane, const TimeRange& range) const {
    std::vector<const StoredRow*> rows;
    for (const StoredRow& row : rows_) {
        if (row.lane == lane && !row.copies) {
            rows.push_back(&row);
        }
    }
    if (rows.size() != 1) {
        const std::vector<const ItemRow*> items(rows.begin(), rows.end());
        return coveredIn(items, range, [&](std::size_t row, std::size_t slice) { return rows[row]->computes(slice); });
    }
    const StoredRow& only = *rows.front();
    const auto computes = [&](std::size_t slice) { return only.computes(slice); };
    const ItemSpan inside = only.within(range);
    if (inside.size() == 0) {
        return 0;
    }
    const std::size_t last = inside.end - 1;
    const std::int64_t before =
        computes(inside.first) ? std::max(std::int64_t{0}, range.start - only.start[inside.first]) : 0;
    const std::int64_t after = computes(last) ? std::max(std::int64_t{0}, only.end[last] - range.end) : 0;
    return busyOf(only, inside, computes) - before - after;
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
