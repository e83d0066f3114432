#include "gui/timeline/step_spans.h"

#include "analysis/covered_time.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
// Only a damaged trace, in which every task has its own step, exceeds this; a normal one has some ten thousand.
constexpr std::size_t kMostFigures = 32'000'000;

struct Bucket {
    std::int32_t step = 0;
    std::int64_t start = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
};

class Buckets {
public:
    explicit Buckets(std::size_t lanes) : lanes_(std::max<std::size_t>(1, lanes)) {}

    /// Null if there are too many steps. Neighbours usually belong to the same step.
    std::size_t* bucketOf(std::int32_t step) {
        if (last_ < buckets_.size() && buckets_[last_].step == step) {
            return &last_;
        }
        const auto found = numbers_.find(step);
        if (found != numbers_.end()) {
            last_ = found->second;
            return &last_;
        }
        if ((buckets_.size() + 1) * lanes_ > kMostFigures) {
            return nullptr;
        }
        last_ = buckets_.size();
        numbers_.emplace(step, last_);
        buckets_.push_back({step});
        busy_.resize(buckets_.size() * lanes_);
        return &last_;
    }
    Bucket& bucket(std::size_t number) { return buckets_[number]; }
    std::int64_t& busy(std::size_t number, LaneId lane) { return busy_[number * lanes_ + lane.index()]; }
    std::vector<StepSpan> spans(std::size_t lanes) const;

private:
    std::size_t lanes_;
    std::size_t last_ = 0;
    std::unordered_map<std::int32_t, std::size_t> numbers_;
    std::vector<Bucket> buckets_;
    std::vector<std::int64_t> busy_;
};

std::int32_t stepOf(std::uint64_t key) {
    return unpack(key).value_or(TaskKey{}).step;
}

/// Rows of one lane may overlap: shared time counts once.
void addUnion(const std::vector<const StoredRow*>& rows, Buckets& buckets) {
    struct Piece {
        std::int32_t step;
        TimeRange range;
    };
    std::vector<Piece> pieces;
    for (const StoredRow* row : rows) {
        for (std::size_t i = 0; i < row->start.size(); ++i) {
            if (is_compute(keyKindOf(static_cast<TaskKind>(row->kind[i])))) {
                pieces.push_back({stepOf(row->key[i]), {row->start[i], row->end[i]}});
            }
        }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        return std::tie(a.step, a.range.start, a.range.end) < std::tie(b.step, b.range.start, b.range.end);
    });
    CoveredTime covered;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        const std::size_t* number = buckets.bucketOf(piece.step);
        if (number == nullptr) {
            continue;
        }
        if (i == 0 || pieces[i - 1].step != piece.step) {
            covered = {};
        }
        buckets.busy(*number, rows.front()->lane) += covered.add(piece.range);
    }
}

std::vector<StepSpan> Buckets::spans(std::size_t lanes) const {
    std::vector<StepSpan> spans;
    spans.reserve(buckets_.size());
    for (std::size_t number = 0; number < buckets_.size(); ++number) {
        const Bucket& bucket = buckets_[number];
        if (bucket.end <= bucket.start) {
            continue;
        }
        StepSpan span{bucket.step, {}};
        span.statistics.start = Nanoseconds{bucket.start};
        span.statistics.end = Nanoseconds{bucket.end};
        span.statistics.lanes.resize(lanes);
        const auto length = static_cast<double>(bucket.end - bucket.start);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            LaneStatistics& each = span.statistics.lanes[lane];
            each.busy = Nanoseconds{busy_[number * lanes_ + lane]};
            each.bubble_fraction = 1.0 - static_cast<double>(each.busy.count()) / length;
            span.statistics.bubble_fraction += each.bubble_fraction / static_cast<double>(lanes);
        }
        spans.push_back(std::move(span));
    }
    std::sort(spans.begin(), spans.end(), [](const StepSpan& a, const StepSpan& b) {
        return std::tie(a.statistics.start, a.step) < std::tie(b.statistics.start, b.step);
    });
    return spans;
}
}  // namespace

std::vector<StepSpan> stepSpans(const std::vector<StoredRow>& rows, std::size_t lanes) {
    Buckets buckets(lanes);
    for (std::size_t first = 0; first < rows.size();) {
        std::vector<const StoredRow*> of_lane;
        for (const LaneId lane = rows[first].lane; first < rows.size() && rows[first].lane == lane; ++first) {
            if (!rows[first].copies) {
                of_lane.push_back(&rows[first]);
            }
        }
        for (const StoredRow* row : of_lane) {
            for (std::size_t i = 0; i < row->start.size(); ++i) {
                const TaskKind kind = keyKindOf(static_cast<TaskKind>(row->kind[i]));
                if (!is_of_step(kind)) {
                    continue;
                }
                const std::size_t* number = buckets.bucketOf(stepOf(row->key[i]));
                if (number == nullptr) {
                    continue;
                }
                Bucket& bucket = buckets.bucket(*number);
                bucket.end = std::max(bucket.end, row->end[i]);
                if (!is_compute(kind)) {
                    continue;
                }
                bucket.start = std::min(bucket.start, row->start[i]);
                if (of_lane.size() == 1) {
                    buckets.busy(*number, row->lane) += row->end[i] - row->start[i];
                }
            }
        }
        if (of_lane.size() > 1) {
            addUnion(of_lane, buckets);
        }
    }
    return buckets.spans(lanes);
}

std::vector<StepSpan> staggeredSpans(const std::vector<StoredRow>& rows, const std::vector<LaneInfo>& lanes) {
    Timeline timeline{Source::measured, lanes, {}};
    for (const StoredRow& row : rows) {
        for (std::size_t i = 0; i < row.start.size() && !row.copies; ++i) {
            timeline.slices.push_back({unpack(row.key[i]).value_or(TaskKey{}), row.lane, Nanoseconds{row.start[i]},
                                       Nanoseconds{row.end[i]}, 0});
        }
    }
    std::vector<StepSpan> spans;
    for (auto& [step, statistics] : statistics_by_step(timeline, Update::staggered)) {
        if (statistics.end > statistics.start) {
            spans.push_back({step, std::move(statistics)});
        }
    }
    std::sort(spans.begin(), spans.end(), [](const StepSpan& a, const StepSpan& b) {
        return std::tie(a.statistics.start, a.step) < std::tie(b.statistics.start, b.step);
    });
    return spans;
}

StepGraph stepGraphOf(const TimelineStore& store, std::int32_t step, std::shared_ptr<const TaskGraph> graph) {
    const StepSpan* span = store.step(step);
    const TimeRange range = span != nullptr ? span->range() : TimeRange{};
    // A step's other tasks lie near it: copies and the optimizer, which may run as late as the end of the next step;
    // and if steps overlap, tasks that ran before the end of the step before.
    const std::int64_t margin = (store.overlaps() ? 2 : 1) * range.length();
    const auto after = std::ranges::find_if(store.steps(), [&](const StepSpan& each) { return each.step == step; });
    const std::int64_t late = after == store.steps().end()       ? range.end
                              : after + 1 == store.steps().end() ? store.range().end
                                                                 : (after + 1)->range().end;
    const TimeRange near{range.start - margin, std::max(range.end + margin, late)};
    std::vector<StepTask> tasks;
    for (std::uint32_t row = 0; row < store.rows().size() && span != nullptr; ++row) {
        const StoredRow& stored = store.rows()[row];
        for (const std::size_t i : stored.touching(near).indices()) {
            const std::optional<TaskKey> key = unpack(stored.key[i]);
            if (key && (store.overlaps() ? std::abs(key->step - step) <= 1 : store.isOf(*key, step))) {
                tasks.push_back(
                    {*key, {row, static_cast<std::uint32_t>(i)}, stored.lane, stored.start[i], stored.end[i]});
            }
        }
    }
    return {std::move(tasks), store.lanes().size(), range, std::move(graph),
            store.overlaps() ? std::optional(step) : std::nullopt};
}
}  // namespace pipescope
