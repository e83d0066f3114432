#include "gui/timeline/timeline_store_builder.h"

#include "gui/style/work_pool.h"
#include "gui/timeline/step_spans.h"
#include "schedule/backward_half.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace pipescope {
namespace {
// Shorter rows are read slice by slice at any zoom level.
constexpr std::size_t kSlicesWorthAPyramid = 4096;
// A valid lane needs one row, concurrent streams a few. Limits the memory that a damaged trace can take.
constexpr std::size_t kMostRowsOfALane = 32;
constexpr std::size_t kMostLanes = kMostPartitions;

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
    if (to.empty()) {
        to = std::move(from);
        return;
    }
    to.insert(to.end(), from.begin(), from.end());
    from = {};  // frees it now, to make room for the next column
}

/// Marks the backwards of a lane whose weights' gradients are a task of their own, which runs on the same lane.
void markInputHalves(std::vector<StoredRow>& rows) {
    const auto kindAt = [](const StoredRow& row, std::size_t i) { return static_cast<TaskKind>(row.kind[i]); };
    std::vector<std::uint64_t> weights;
    for (const StoredRow& row : rows) {
        for (std::size_t i = 0; i < row.kind.size(); ++i) {
            if (kindAt(row, i) == TaskKind::backward_weight) {
                weights.push_back(row.key[i]);
            }
        }
    }
    const SplitBackwards split(std::move(weights));
    for (std::size_t number = 0; !split.empty() && number < rows.size(); ++number) {
        StoredRow& row = rows[number];
        for (std::size_t i = 0; i < row.kind.size(); ++i) {
            if (kindAt(row, i) == TaskKind::backward && split.half_of(unpack(row.key[i]).value_or(TaskKey{}))) {
                row.kind[i] = static_cast<std::uint8_t>(kInputHalf);
            }
        }
    }
}

/// Partitions of the rows' tasks, ascending.
std::vector<std::int32_t> partitionsIn(const std::vector<StoredRow>& rows) {
    std::vector<bool> found(kMostPartitions + 1);
    for (const StoredRow& row : rows) {
        for (const std::uint64_t packed : row.copies ? std::span<const std::uint64_t>() : std::span(row.key)) {
            const std::optional<TaskKey> key = unpack(packed);
            if (key && key->partition >= 0) {
                found[static_cast<std::size_t>(key->partition)] = true;
            }
        }
    }
    std::vector<std::int32_t> partitions;
    for (std::size_t each = 0; each < found.size(); ++each) {
        if (found[each]) {
            partitions.push_back(static_cast<std::int32_t>(each));
        }
    }
    return partitions;
}

void indexRow(StoredRow& row) {
    row.start.shrink_to_fit();
    row.end.shrink_to_fit();
    row.kind.shrink_to_fit();
    row.key.shrink_to_fit();
    row.bytes.shrink_to_fit();
    row.kinds = kindsIn(row.kind);
    sumBusy(row, [&](std::size_t i) { return row.computes(i); });
    for (std::size_t i = 0; i < row.size(); ++i) {
        row.hasTicks = row.hasTicks || row.isTick(i);
        row.drawn[row.kind[i]] = row.drawn[row.kind[i]] || row.end[i] > row.start[i] || row.isTick(i);
    }
    if (row.start.size() >= kSlicesWorthAPyramid) {
        row.pyramid.emplace(row.columns());
    }
}
}  // namespace

void TimelineStoreBuilder::Columns::add(const Slice& slice) {
    const std::int64_t from = slice.start.count();
    sorted = sorted && (end.empty() || from >= end.back());
    start.push_back(from);
    end.push_back(std::max(from, slice.end.count()));
    kind.push_back(static_cast<std::uint8_t>(slice.key.kind));
    key.push_back(pack(slice.key));
    if (slice.bytes != 0 && bytes.empty()) {
        bytes.resize(start.size() - 1);
    }
    if (slice.bytes != 0 || !bytes.empty()) {
        bytes.push_back(slice.bytes);
    }
}

void TimelineStoreBuilder::Columns::join(Columns&& later) {
    if (later.start.empty()) {
        return;
    }
    sorted = sorted && later.sorted && (end.empty() || later.start.front() >= end.back());
    if (!bytes.empty() || !later.bytes.empty()) {
        bytes.resize(start.size());
        later.bytes.resize(later.start.size());
        bytes.insert(bytes.end(), later.bytes.begin(), later.bytes.end());
    }
    append(start, std::move(later.start));
    append(end, std::move(later.end));
    append(kind, std::move(later.kind));
    append(key, std::move(later.key));
    later = {};
}

TimelineStoreBuilder::TimelineStoreBuilder(Source source, std::vector<LaneInfo> lanes)
    : source_(source), names_(std::move(lanes)), lanes_(names_.size()) {}

void TimelineStoreBuilder::add(const Slice& slice) {
    const std::size_t index = slice.lane.index();
    if (index >= lanes_.size()) {
        if (index >= kMostLanes) {  // includes negative lanes
            ++hidden_;
            return;
        }
        lanes_.resize(index + 1);  // a trace may have lost its lanes' names
    }
    (is_copy(slice.key.kind) ? lanes_[index].copies : lanes_[index].tasks).add(slice);
    ++size_;
}

void TimelineStoreBuilder::add(std::span<const Slice> slices) {
    for (const Slice& slice : slices) {
        add(slice);
    }
}

void TimelineStoreBuilder::join(TimelineStoreBuilder&& later) {
    lanes_.resize(std::max(lanes_.size(), later.lanes_.size()));
    for (std::size_t lane = 0; lane < later.lanes_.size(); ++lane) {
        lanes_[lane].tasks.join(std::move(later.lanes_[lane].tasks));
        lanes_[lane].copies.join(std::move(later.lanes_[lane].copies));
    }
    size_ += std::exchange(later.size_, 0);
    hidden_ += std::exchange(later.hidden_, 0);
}

void TimelineStoreBuilder::split(Columns&& columns, Finished& finished) {
    if (columns.sorted) {
        if (columns.size() > 0 || !columns.copies) {  // an idle lane is shown too
            finished.rows.push_back(static_cast<StoredRow&&>(columns));
        }
        return;
    }
    std::vector<std::uint32_t> order(columns.start.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return columns.start[a] < columns.start[b]; });
    // Assigns a slice to the first row that is free at its start.
    const std::size_t first = finished.rows.size();
    for (const std::uint32_t i : order) {
        std::size_t depth = 0;
        while (first + depth < finished.rows.size() && finished.rows[first + depth].end.back() > columns.start[i]) {
            ++depth;
        }
        if (depth == kMostRowsOfALane) {
            ++finished.hidden;
            continue;
        }
        if (first + depth == finished.rows.size()) {
            StoredRow& added = finished.rows.emplace_back();
            added.lane = columns.lane;
            added.copies = columns.copies;
            added.depth = static_cast<int>(depth);
        }
        StoredRow& row = finished.rows[first + depth];
        row.start.push_back(columns.start[i]);
        row.end.push_back(columns.end[i]);
        row.kind.push_back(columns.kind[i]);
        row.key.push_back(columns.key[i]);
        if (!columns.bytes.empty()) {
            row.bytes.push_back(columns.bytes[i]);
        }
    }
}

TimelineStoreBuilder::Finished TimelineStoreBuilder::finishLane(Lane&& lane, LaneId id) {
    Finished finished;
    lane.tasks.lane = lane.copies.lane = id;
    lane.copies.copies = true;
    split(std::move(lane.tasks), finished);
    markInputHalves(finished.rows);
    split(std::move(lane.copies), finished);
    lane = {};
    finished.partitions = partitionsIn(finished.rows);
    std::for_each(finished.rows.begin(), finished.rows.end(), indexRow);
    return finished;
}

TimelineStore TimelineStoreBuilder::finish(Update update) {
    TimelineStore store;
    store.source_ = source_;
    store.lanes_ = names_;
    while (store.lanes_.size() < lanes_.size()) {
        store.lanes_.push_back({"lane " + std::to_string(store.lanes_.size()), ""});
    }
    std::vector<Finished> finished(lanes_.size());
    parallelFor(lanes_.size(), [&](std::size_t lane, std::size_t) {
        finished[lane] = finishLane(std::move(lanes_[lane]), LaneId{static_cast<std::int64_t>(lane)});
    });
    store.numHidden_ = std::exchange(hidden_, 0);
    for (Finished& each : finished) {
        store.numHidden_ += each.hidden;
        std::move(each.rows.begin(), each.rows.end(), std::back_inserter(store.rows_));
        store.mostPartitions_ = std::max(store.mostPartitions_, each.partitions.size());
        store.partitions_.push_back(std::move(each.partitions));
    }
    bool any = false;
    for (const StoredRow& row : store.rows_) {
        if (!row.start.empty()) {
            store.range_.start = any ? std::min(store.range_.start, row.start.front()) : row.start.front();
            store.range_.end = any ? std::max(store.range_.end, row.end.back()) : row.end.back();
            any = true;
        }
        store.numSlices_ += row.start.size();
    }
    store.overlaps_ = update == Update::staggered;
    store.steps_ =
        store.overlaps_ ? staggeredSpans(store.rows_, store.lanes_) : stepSpans(store.rows_, store.lanes_.size());
    lanes_.assign(names_.size(), {});
    size_ = 0;
    return store;
}
}  // namespace pipescope
