#include "schedule/timeline.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace pipescope {
namespace {
/// Length of the union of the intervals. Sorts them.
Nanoseconds union_length(std::vector<std::pair<Nanoseconds, Nanoseconds>>& intervals) {
    std::sort(intervals.begin(), intervals.end());
    Nanoseconds total{0};
    std::optional<Nanoseconds> covered_to;
    for (const auto& [start, end] : intervals) {
        const Nanoseconds from = covered_to ? std::max(start, *covered_to) : start;
        if (end > from) {
            total += end - from;
        }
        covered_to = covered_to ? std::max(*covered_to, end) : end;
    }
    return total;
}
}  // namespace

std::string_view to_string(Source source) {
    return source == Source::measured ? "measured" : "simulated";
}

void sort_slices(Timeline& timeline) {
    std::stable_sort(timeline.slices.begin(), timeline.slices.end(), [](const Slice& a, const Slice& b) {
        return std::tie(a.start, a.lane, a.end) < std::tie(b.start, b.lane, b.end);
    });
}

std::vector<std::int32_t> steps_of(const Timeline& timeline) {
    std::set<std::int32_t> steps;
    for (const Slice& slice : timeline.slices) {
        steps.insert(slice.key.step);
    }
    return {steps.begin(), steps.end()};
}

Timeline step_of(const Timeline& timeline, std::int32_t step) {
    Timeline one{timeline.source, timeline.lanes, {}};
    std::copy_if(timeline.slices.begin(), timeline.slices.end(), std::back_inserter(one.slices),
                 [&](const Slice& slice) { return slice.key.step == step; });
    return one;
}

StepStatistics step_statistics(const Timeline& timeline, std::int32_t step) {
    StepStatistics statistics;
    statistics.lanes.resize(timeline.lanes.size());
    std::vector<std::vector<std::pair<Nanoseconds, Nanoseconds>>> busy(timeline.lanes.size());
    std::optional<Nanoseconds> start;
    std::optional<Nanoseconds> end;
    for (const Slice& slice : timeline.slices) {
        const bool computes = is_compute(slice.key.kind);
        const bool counts = computes || slice.key.kind == TaskKind::all_reduce;
        if (slice.key.step != step || !counts || slice.lane.index() >= busy.size()) {
            continue;
        }
        end = end ? std::max(*end, slice.end) : slice.end;
        if (computes) {
            busy[slice.lane.index()].emplace_back(slice.start, slice.end);
            start = start ? std::min(*start, slice.start) : slice.start;
        }
    }
    if (!start || *end <= *start) {
        return statistics;
    }
    statistics.start = *start;
    statistics.end = *end;
    for (std::size_t lane = 0; lane < busy.size(); ++lane) {
        LaneStatistics& each = statistics.lanes[lane];
        each.busy = union_length(busy[lane]);
        each.bubble_fraction =
            1.0 - static_cast<double>(each.busy.count()) / static_cast<double>((*end - *start).count());
        statistics.bubble_fraction += each.bubble_fraction / static_cast<double>(busy.size());
    }
    return statistics;
}
}  // namespace pipescope
