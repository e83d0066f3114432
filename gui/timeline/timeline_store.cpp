#include "gui/timeline/timeline_store.h"

#include <algorithm>
#include <map>

namespace pipescope {
namespace {
// Shorter rows are read slice by slice at any zoom.
constexpr std::size_t kSlicesWorthAPyramid = 4096;
// A sound lane needs one row, concurrent streams a few; a damaged trace must not fill the memory with rows.
constexpr std::size_t kMostRowsOfALane = 32;
constexpr std::size_t kMostLanes = kMostPartitions;

/// Rows of one lane while they are filled: a slice goes to the first row that is free at its start.
class LaneRows {
public:
    /// Nothing if the lane has too many rows already.
    StoredRow* rowFor(const Slice& slice) {
        std::vector<StoredRow>& rows = is_copy(slice.key.kind) ? copies_ : tasks_;
        for (StoredRow& row : rows) {
            if (row.end.back() <= slice.start.count()) {
                return &row;
            }
        }
        if (rows.size() == kMostRowsOfALane) {
            return nullptr;
        }
        StoredRow& row = rows.emplace_back();
        row.lane = slice.lane;
        row.copies = is_copy(slice.key.kind);
        row.depth = static_cast<int>(rows.size()) - 1;
        return &row;
    }

    void moveTo(std::vector<StoredRow>& all, LaneId lane) {
        if (tasks_.empty()) {
            tasks_.emplace_back().lane = lane;  // an idle lane is shown too
        }
        std::move(tasks_.begin(), tasks_.end(), std::back_inserter(all));
        std::move(copies_.begin(), copies_.end(), std::back_inserter(all));
    }

private:
    std::vector<StoredRow> tasks_;
    std::vector<StoredRow> copies_;
};

void append(StoredRow& row, const Slice& slice) {
    row.start.push_back(slice.start.count());
    row.end.push_back(std::max(slice.start, slice.end).count());
    row.kind.push_back(static_cast<std::uint8_t>(slice.key.kind));
    row.key.push_back(pack(slice.key));
    if (slice.bytes != 0 && row.bytes.empty()) {
        row.bytes.resize(row.start.size() - 1);
    }
    if (slice.bytes != 0 || !row.bytes.empty()) {
        row.bytes.push_back(slice.bytes);
    }
}

void finish(StoredRow& row) {
    row.start.shrink_to_fit();
    row.end.shrink_to_fit();
    row.kind.shrink_to_fit();
    row.key.shrink_to_fit();
    row.bytes.shrink_to_fit();
    row.kinds = kindsIn(row.kind);
    if (row.start.size() >= kSlicesWorthAPyramid) {
        row.pyramid.emplace(row.columns());
    }
}

std::vector<StepSpan> spansOf(const Timeline& timeline) {
    // One bucket a step: asking step_statistics for each step of the whole timeline would be quadratic.
    std::map<std::int32_t, Timeline> buckets;
    for (const Slice& slice : timeline.slices) {
        Timeline& bucket = buckets[slice.key.step];
        if (is_compute(slice.key.kind)) {
            bucket.slices.push_back(slice);
        }
    }
    std::vector<StepSpan> spans;
    for (auto& [step, bucket] : buckets) {
        bucket.lanes = timeline.lanes;
        StepStatistics statistics = step_statistics(bucket, step);
        if (statistics.step_time().count() > 0) {
            spans.push_back({step, std::move(statistics)});
        }
        bucket = {};
    }
    std::sort(spans.begin(), spans.end(),
              [](const StepSpan& a, const StepSpan& b) { return a.statistics.start < b.statistics.start; });
    return spans;
}
}  // namespace

TimelineStore::TimelineStore(const Timeline& timeline)
    : source_(timeline.source), lanes_(timeline.lanes), steps_(spansOf(timeline)) {
    std::vector<LaneRows> building(lanes_.size());
    for (const Slice& slice : timeline.slices) {
        if (slice.lane.index() >= kMostLanes) {  // negative ones too
            ++numHidden_;
            continue;
        }
        while (slice.lane.index() >= lanes_.size()) {  // a trace may have lost its lanes' names
            lanes_.push_back({"lane " + std::to_string(lanes_.size()), ""});
            building.emplace_back();
        }
        StoredRow* row = building[slice.lane.index()].rowFor(slice);
        if (row == nullptr) {
            ++numHidden_;
            continue;
        }
        append(*row, slice);
        range_.start = numSlices_ == 0 ? row->start.back() : std::min(range_.start, row->start.back());
        range_.end = numSlices_ == 0 ? row->end.back() : std::max(range_.end, row->end.back());
        ++numSlices_;
    }
    for (std::size_t lane = 0; lane < building.size(); ++lane) {
        building[lane].moveTo(rows_, LaneId{static_cast<std::int64_t>(lane)});
    }
    std::for_each(rows_.begin(), rows_.end(), finish);
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
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        const std::vector<std::uint64_t>& keys = rows_[row].key;
        const auto found = std::find(keys.begin(), keys.end(), packed);
        if (found != keys.end()) {
            return SliceRef{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(found - keys.begin())};
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
