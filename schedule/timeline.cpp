#include "schedule/timeline.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

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

/// The first forward of a step and the end of its last task.
struct StepEnds {
    std::int32_t step = 0;
    std::optional<Nanoseconds> start;  // empty without a compute slice
    Nanoseconds end{0};
};

/// By end.
std::vector<StepEnds> ends_of_steps(const Timeline& timeline) {
    std::map<std::int32_t, StepEnds> steps;
    for (const Slice& slice : timeline.slices) {
        const bool computes = is_compute(slice.key.kind);
        if ((computes || slice.key.kind == TaskKind::optimizer) && slice.lane.index() < timeline.lanes.size()) {
            StepEnds& step = steps.try_emplace(slice.key.step, StepEnds{slice.key.step, {}, slice.end}).first->second;
            step.end = std::max(step.end, slice.end);
            step.start = computes ? std::min(step.start.value_or(slice.start), slice.start) : step.start;
        }
    }
    std::vector<StepEnds> sorted;
    for (const auto& [number, step] : steps) {
        if (step.start) {
            sorted.push_back(step);
        }
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const StepEnds& a, const StepEnds& b) { return a.end < b.end; });
    return sorted;
}

/// Adds the part of the intervals that lies within each step to its busy time. The steps follow each other in time.
void add_busy(std::vector<std::pair<Nanoseconds, Nanoseconds>> intervals, std::size_t lane,
              const std::vector<StepStatistics*>& steps) {
    std::sort(intervals.begin(), intervals.end());
    std::size_t step = 0;
    Nanoseconds covered_to = Nanoseconds::min();
    for (const auto& [start, end] : intervals) {
        Nanoseconds from = std::max(start, covered_to);
        covered_to = std::max(covered_to, end);
        while (step < steps.size() && from < end) {
            const Nanoseconds until = std::min(end, steps[step]->end);
            from = std::max(from, steps[step]->start);
            if (until > from) {
                steps[step]->lanes[lane].busy += until - from;
                from = until;
            }
            if (end < steps[step]->end) {
                break;
            }
            ++step;
        }
    }
}

std::map<std::int32_t, StepStatistics> staggered_statistics(const Timeline& timeline) {
    std::map<std::int32_t, StepStatistics> by_step;
    std::vector<StepStatistics*> in_time;
    Nanoseconds before = Nanoseconds::min();
    for (const StepEnds& each : ends_of_steps(timeline)) {
        StepStatistics& step = by_step[each.step];
        step.lanes.resize(timeline.lanes.size());
        const Nanoseconds start = std::max(*each.start, before);
        if (each.end > start) {
            step.start = start;
            step.end = each.end;
            before = each.end;
            in_time.push_back(&step);
        }
    }
    std::vector<std::vector<std::pair<Nanoseconds, Nanoseconds>>> busy(timeline.lanes.size());
    for (const Slice& slice : timeline.slices) {
        if (is_compute(slice.key.kind) && slice.lane.index() < busy.size()) {
            busy[slice.lane.index()].emplace_back(slice.start, slice.end);
        }
    }
    for (std::size_t lane = 0; lane < busy.size(); ++lane) {
        add_busy(std::move(busy[lane]), lane, in_time);
    }
    for (StepStatistics* step : in_time) {
        for (LaneStatistics& lane : step->lanes) {
            lane.bubble_fraction =
                1.0 - static_cast<double>(lane.busy.count()) / static_cast<double>(step->step_time().count());
            step->bubble_fraction += lane.bubble_fraction / static_cast<double>(step->lanes.size());
        }
    }
    return by_step;
}
}  // namespace

std::string_view to_string(Source source) {
    return source == Source::measured ? "measured" : "simulated";
}

void sort_slices(Timeline& timeline) {
    std::vector<Slice>& slices = timeline.slices;
    const auto is_before = [](const Slice& a, const Slice& b) {
        return std::tie(a.start, a.lane, a.end) < std::tie(b.start, b.lane, b.end);
    };
    if (!std::ranges::is_sorted(slices, {}, &Slice::start)) {
        std::stable_sort(slices.begin(), slices.end(), is_before);
        return;
    }
    for (auto first = slices.begin(); first != slices.end();) {  // those of equal starts
        const auto end = std::find_if(first, slices.end(),
                                      [start = first->start](const Slice& each) { return each.start != start; });
        std::stable_sort(first, end, is_before);
        first = end;
    }
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
        if (slice.key.step != step || !is_of_step(slice.key.kind) || slice.lane.index() >= busy.size()) {
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

StepStatistics one_step_statistics(const Timeline& timeline) {
    Timeline one_step = timeline;
    for (Slice& slice : one_step.slices) {
        slice.key.step = 0;
    }
    return step_statistics(one_step, 0);
}

std::map<std::int32_t, StepStatistics> statistics_by_step(const Timeline& timeline, Update update) {
    if (update == Update::staggered) {
        return staggered_statistics(timeline);
    }
    std::map<std::int32_t, Timeline> steps;
    for (const Slice& slice : timeline.slices) {
        if (is_of_step(slice.key.kind)) {
            steps.try_emplace(slice.key.step, Timeline{timeline.source, timeline.lanes, {}})
                .first->second.slices.push_back(slice);
        }
    }
    std::map<std::int32_t, StepStatistics> statistics;
    for (const auto& [step, slices] : steps) {
        statistics.emplace(step, step_statistics(slices, step));
    }
    return statistics;
}
}  // namespace pipescope
