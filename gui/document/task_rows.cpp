#include "gui/document/task_rows.h"

#include "base/sample_statistics.h"

#include <algorithm>
#include <limits>

namespace pipescope {
namespace {
constexpr std::uint64_t kWithoutStep = (std::uint64_t{1} << 40) - 1;
constexpr std::size_t kBetweenQuestions = 1 << 16;

struct Keyed {
    std::int64_t key;
    std::uint32_t slice;
};

/// Durations of one step, by task. If a task ran twice, the first run counts.
std::unordered_map<std::uint64_t, std::int64_t> durationsOf(const TimelineStore& store, std::int32_t step) {
    std::unordered_map<std::uint64_t, std::int64_t> durations;
    for (const StoredRow& row : store.rows()) {
        for (std::size_t i = 0; i < row.key.size(); ++i) {
            if (store.isOf(unpack(row.key[i]).value_or(TaskKey{}), step)) {
                durations.emplace(row.key[i] & kWithoutStep, row.end[i] - row.start[i]);
            }
        }
    }
    return durations;
}

/// Tasks of one kind and partition are alike.
std::int64_t likenessOf(const TaskKey& key) {
    return static_cast<std::int64_t>(key.kind) << 32 | static_cast<std::uint32_t>(key.partition);
}

/// Median durations of all steps, by likeness.
std::unordered_map<std::int64_t, std::int64_t> mediansOf(const TimelineStore& store) {
    std::unordered_map<std::int64_t, std::vector<std::int64_t>> durations;
    for (const StoredRow& row : store.rows()) {
        for (std::size_t i = 0; i < row.key.size(); ++i) {
            durations[likenessOf(unpack(row.key[i]).value_or(TaskKey{}))].push_back(row.end[i] - row.start[i]);
        }
    }
    std::unordered_map<std::int64_t, std::int64_t> medians;
    for (auto& [likeness, all] : durations) {
        medians.emplace(likeness, median(std::move(all)));
    }
    return medians;
}
}  // namespace

std::optional<std::int64_t> TaskRow::difference() const {
    if (!measured || !simulated) {
        return std::nullopt;
    }
    return twoRuns ? *measured - *simulated : *simulated - *measured;
}

std::optional<double> TaskRow::share() const {
    const std::optional<std::int64_t> change = difference();
    const std::int64_t of = (twoRuns ? simulated : measured).value_or(0);
    return change && of > 0 ? std::optional(static_cast<double>(*change) / static_cast<double>(of)) : std::nullopt;
}

TaskRows::TaskRows(std::shared_ptr<const TraceDocument> document, Source source, std::int32_t step)
    : document_(std::move(document)), source_(source) {
    const Source other = otherThan(source);
    if (const TimelineStore* twins = document_->store(other); twins != nullptr && document_->whyNoTwins.empty()) {
        const bool first = other == Source::simulated && !twins->steps().empty();
        twins_ = durationsOf(*twins, first ? twins->steps().front().step : step);
    }
    if (document_->store(source) == nullptr) {
        return;
    }
    for (const StepSpan& span : store().steps()) {
        stepStart_.emplace(span.step, span.range().start);
    }
    for (const StoredRow& row : store().rows()) {
        firstOfRow_.push_back(static_cast<std::uint32_t>(total_));
        total_ += row.start.size();
    }
}

std::shared_ptr<const TaskRows> TaskRows::make(std::shared_ptr<const TraceDocument> document, Source source,
                                               std::int32_t step, const TaskQuery& query, TaskOrder order,
                                               const std::function<bool()>& cancelled) {
    const std::shared_ptr<TaskRows> rows(new TaskRows(std::move(document), source, step));
    const auto never = [] { return false; };
    return rows->total_ == 0 || rows->fill(query, order, cancelled ? cancelled : never) ? rows : nullptr;
}

bool TaskRows::fill(const TaskQuery& query, TaskOrder order, const std::function<bool()>& cancelled) {
    const auto medians =
        query.lengths.needMedian() ? mediansOf(store()) : std::unordered_map<std::int64_t, std::int64_t>();
    const auto isOfLength = [&](const Slice& slice) {
        return medians.empty() || query.lengths.accept(slice.duration().count(), medians.at(likenessOf(slice.key)));
    };
    std::vector<Keyed> kept;
    for (std::uint32_t row = 0; row < store().rows().size(); ++row) {
        const auto slices = static_cast<std::uint32_t>(store().rows()[row].start.size());
        for (std::uint32_t i = 0; i < slices; ++i) {
            if (i % kBetweenQuestions == 0 && cancelled()) {
                return false;
            }
            const Slice slice = store().slice({row, i});
            if (query.matches(slice) && isOfLength(slice)) {
                kept.push_back({sortKey(slice, order.column), firstOfRow_[row] + i});
            }
        }
    }
    // Rows without a value come last in either direction.
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    std::sort(kept.begin(), kept.end(), [&](const Keyed& a, const Keyed& b) {
        if (a.key == b.key || (order.descending && (a.key == none || b.key == none))) {
            return a.key == b.key ? a.slice < b.slice : b.key == none;
        }
        return order.descending ? a.key > b.key : a.key < b.key;
    });
    order_.reserve(kept.size());
    std::transform(kept.begin(), kept.end(), std::back_inserter(order_), [](const Keyed& each) { return each.slice; });
    return !cancelled();
}

SliceRef TaskRows::sliceAt(std::size_t row) const {
    const std::uint32_t number = order_.at(row);
    const auto after = std::upper_bound(firstOfRow_.begin(), firstOfRow_.end(), number);
    const auto of = static_cast<std::uint32_t>(after - firstOfRow_.begin()) - 1;
    return {of, number - firstOfRow_[of]};
}

std::optional<std::size_t> TaskRows::rowOf(SliceRef slice) const {
    if (slice.row >= firstOfRow_.size()) {
        return std::nullopt;
    }
    const auto found = std::find(order_.begin(), order_.end(), firstOfRow_[slice.row] + slice.index);
    return found == order_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - order_.begin()));
}

TaskRow TaskRows::at(std::size_t row) const {
    const SliceRef slice = sliceAt(row);
    TaskRow found = rowFor(store().slice(slice));
    found.shown = store().shownKey(slice);
    return found;
}

TaskRow TaskRows::rowFor(const Slice& slice) const {
    TaskRow row;
    row.slice = slice;
    row.twoRuns = document_->baseline != nullptr;
    const auto step = stepStart_.find(slice.key.step);
    row.sinceStep = slice.start.count() - (step != stepStart_.end() ? step->second : 0);
    const auto twin = twins_.find(pack(slice.key) & kWithoutStep);
    const std::optional<std::int64_t> other = twin != twins_.end() ? std::optional(twin->second) : std::nullopt;
    const std::int64_t own = slice.duration().count();
    row.measured = source_ == Source::measured ? own : other;
    row.simulated = source_ == Source::measured ? other : own;
    return row;
}

std::int64_t TaskRows::sortKey(const Slice& slice, TaskColumn column) const {
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    switch (column) {
        case TaskColumn::task: return static_cast<std::int64_t>(pack(slice.key) & kWithoutStep);
        case TaskColumn::step: return slice.key.step;
        case TaskColumn::lane: return slice.lane.value();
        case TaskColumn::start: return slice.start.count();
        case TaskColumn::measured: return rowFor(slice).measured.value_or(none);
        case TaskColumn::simulated: return rowFor(slice).simulated.value_or(none);
        case TaskColumn::difference: return rowFor(slice).difference().value_or(none);
        case TaskColumn::share: {
            const std::optional<double> share = rowFor(slice).share();
            return share ? static_cast<std::int64_t>(std::clamp(*share, -1e9, 1e9) * 1e9) : none;
        }
    }
    return 0;
}
}  // namespace pipescope
