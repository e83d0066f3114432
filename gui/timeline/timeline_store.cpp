#include "gui/timeline/timeline_store.h"

#include "gui/timeline/timeline_store_builder.h"

#include <algorithm>

namespace pipescope {
TimelineStore::TimelineStore(const Timeline& timeline) {
    TimelineStoreBuilder builder(timeline.source, timeline.lanes);
    builder.add(timeline.slices);
    *this = builder.finish();
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

std::optional<SliceRef> TimelineStore::find(const TaskKey& key) const {
    const std::uint64_t packed = pack(key);
    // A step's tasks lie within it, but for a late optimizer or copy.
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
    // The slice before, which ended already, and the one that ends next.
    for (std::size_t i = next == 0 ? 0 : next - 1; i <= next && i < stored.start.size(); ++i) {
        const std::int64_t away = std::max({std::int64_t{0}, stored.start[i] - time, time - stored.end[i]});
        if (away < best || (away == 0 && best == 0) || (away == best && !nearest)) {
            best = away;
            nearest = SliceRef{row, static_cast<std::uint32_t>(i)};
        }
    }
    return nearest;
}

std::size_t TimelineStore::sizeBytes() const {
    std::size_t bytes = 0;
    for (const StoredRow& row : rows_) {
        bytes += (row.start.size() + row.end.size() + row.key.size() + row.bytes.size()) * sizeof(std::int64_t) +
                 row.kind.size() + (row.pyramid ? row.pyramid->sizeBytes() : 0);
    }
    return bytes;
}
}  // namespace pipescope
