#include "analysis/comparison.h"

#include "analysis/task_join.h"
#include "base/error.h"
#include "base/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace pipescope {
namespace {
bool belongs_to_step(const Slice& slice, Update update) {
    return update == Update::staggered || slice.key.kind != TaskKind::optimizer;
}

/// A duration of one task in one step.
struct Occurrence {
    Nanoseconds duration{0};
    std::int32_t step = 0;
};

std::vector<TaskKey> keys_of(const std::vector<Slice>& slices) {
    std::vector<TaskKey> keys;
    for (const Slice& slice : slices) {
        keys.push_back(slice.key);
    }
    return keys;
}

/// Joins the tasks of every step with the simulated ones.
void match_steps(const std::map<std::int32_t, Timeline>& steps, const std::vector<Slice>& twins, Opposite opposite,
                 Comparison& comparison) {
    const std::vector<TaskKey> twin_keys = keys_of(twins);
    RecordedKinds& recorded = comparison.recorded;
    for (const auto& [step, timeline] : steps) {
        for (const Slice& slice : timeline.slices) {
            recorded.add(slice.key.kind);
        }
    }
    std::map<std::pair<TaskKey, std::size_t>, std::vector<Occurrence>> found;  // by twin
    for (const auto& [step, timeline] : steps) {
        const TaskJoin join = join_tasks(keys_of(timeline.slices), twin_keys);
        for (const TaskJoin::Pair& pair : join.pairs) {
            found[{twin_keys[pair.simulated], pair.simulated}].push_back(
                {timeline.slices[pair.measured].duration(), step});
        }
        comparison.tasks_matched += static_cast<std::int64_t>(join.pairs.size());
        const std::int64_t missing = std::ranges::count_if(join.simulated, [&](const TaskJoin::Single& single) {
            const Slice& twin = twins[single.task];
            return opposite == Opposite::run_before || !recorded.lacks(twin.key.kind, twin.duration().count());
        });
        comparison.tasks_unmatched += static_cast<std::int64_t>(join.measured.size()) + missing;
        comparison.tasks_only_simulated += missing;
    }
    const SplitBackwards split(twins);
    for (auto& [twin, occurrences] : found) {
        const Occurrence& middle = median_element(occurrences, &Occurrence::duration);
        TaskKey task = twin.first;
        task.step = middle.step;
        comparison.worst.push_back({task, middle.duration, twins[twin.second].duration(), split.half_of(twin.first)});
    }
    keep_worst(comparison.worst);
}

/// The side that measured steps are compared with.
struct OtherSide {
    Nanoseconds step_time{0};
    double bubble_fraction = 0;
    std::optional<Nanoseconds> step_mean;
    std::optional<double> bubble_mean;
    std::vector<RunLane> lanes;
};

OtherSide side_of(const Simulation& simulation) {
    OtherSide side{simulation.step_time, simulation.bubble_fraction, {}, {}, {}};
    if (simulation.noise) {
        side.step_mean = simulation.noise->mean;
        side.bubble_mean = simulation.noise->bubble;
    }
    for (const SimulatedLane& lane : simulation.lanes) {
        side.lanes.push_back({lane.busy, lane.bubble_fraction,
                              simulation.memory_unknown ? std::nullopt : std::optional(lane.peak_bytes), true});
    }
    return side;
}

OtherSide side_of(const RunFigures& before) {
    return {before.step_time, before.bubble_fraction, before.step_mean, before.bubble_mean, before.lanes};
}

void compare_lanes(const std::vector<RunLane>& measured, const std::vector<RunLane>& other, Comparison& comparison) {
    comparison.lanes.resize(std::max(measured.size(), other.size()));
    for (std::size_t lane = 0; lane < comparison.lanes.size(); ++lane) {
        ComparedLane& each = comparison.lanes[lane];
        if (lane < other.size()) {
            each.simulated_busy = other[lane].busy;
            each.simulated_bubble_fraction = other[lane].bubble_fraction;
            each.simulated_peak_bytes = other[lane].peak_bytes;
        }
        if (lane < measured.size()) {
            each.measured_busy = measured[lane].busy;
            each.measured_bubble_fraction = measured[lane].bubble_fraction;
            each.measured_peak_bytes = measured[lane].peak_bytes;
            each.recorded = measured[lane].recorded;
        }
    }
}

void add_peaks(const Measured& measured, const std::map<std::int32_t, StepStatistics>& statistics,
               std::vector<RunLane>& lanes) {
    std::vector<TimeRange> steps;
    for (const auto& [step, each] : statistics) {
        steps.push_back({each.start.count(), each.end.count()});
    }
    const std::vector<std::optional<Bytes>> peaks = measured.peaks(steps, lanes.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        lanes[lane].peak_bytes = peaks[lane];
    }
}

RunFigures figures_of(const Measured& measured, const std::map<std::int32_t, Timeline>& steps) {
    const std::map<std::int32_t, StepStatistics> statistics = statistics_of(measured);
    RunFigures figures;
    figures.steps = measured.steps;
    const StepStatistics& first = statistics.begin()->second;
    std::vector<std::vector<Nanoseconds>> busy(first.lanes.size());
    std::vector<std::vector<double>> idle(first.lanes.size());
    for (const auto& [step, each] : statistics) {
        figures.step_times.push_back(each.step_time());
        figures.bubbles.push_back(each.bubble_fraction);
        figures.bubble_mean += each.bubble_fraction / static_cast<double>(statistics.size());
        for (std::size_t lane = 0; lane < busy.size(); ++lane) {
            busy[lane].push_back(each.lanes[lane].busy);
            idle[lane].push_back(each.lanes[lane].bubble_fraction);
        }
    }
    figures.step_time = median(figures.step_times);
    figures.step_mean = mean(figures.step_times);
    figures.bubble_fraction = median(figures.bubbles);
    if (!measured.wall_step_times.empty()) {
        figures.wall_step_time = median(measured.wall_step_times);
    }
    for (std::size_t lane = 0; lane < busy.size(); ++lane) {
        const LaneId id{static_cast<std::int64_t>(lane)};
        const bool recorded = std::ranges::any_of(steps, [id](const auto& step) {
            return std::ranges::any_of(step.second.slices, [id](const Slice& slice) {
                return slice.lane == id && is_compute(slice.key.kind);
            });
        });
        figures.lanes.push_back({median(busy[lane]), median(idle[lane]), std::nullopt, recorded});
    }
    if (measured.peaks) {
        add_peaks(measured, statistics, figures.lanes);
    }
    return figures;
}

void require_steps(const Measured& measured) {
    if (measured.steps.empty()) {
        throw Error("the trace has 0 steps to compare; at least 1 after the warm-up is needed; record more steps");
    }
}

/// Standard error of the mean, relative to the mean.
std::optional<double> relative_standard_error(const std::vector<Nanoseconds>& times) {
    std::vector<double> numbers;
    for (const Nanoseconds time : times) {
        numbers.push_back(static_cast<double>(time.count()));
    }
    const double center = mean_of(numbers);
    return numbers.size() < 2 || center <= 0
               ? std::nullopt
               : std::optional(standard_deviation(numbers) / std::sqrt(static_cast<double>(numbers.size())) / center);
}

/// `steps` and `figures` describe the measured side; `twins` are the tasks of the other side's step.
Comparison compare_sides(const std::map<std::int32_t, Timeline>& steps, const RunFigures& figures,
                         const OtherSide& other, const std::vector<Slice>& twins, Opposite opposite) {
    Comparison comparison;
    comparison.steps = figures.steps;
    comparison.measured_step_time = figures.step_time;
    comparison.measured_step_mean = figures.step_mean;
    comparison.measured_standard_error = relative_standard_error(figures.step_times);
    comparison.measured_bubble_fraction = figures.bubble_fraction;
    comparison.measured_bubble_mean = figures.bubble_mean;
    comparison.measured_wall_step_time = figures.wall_step_time;
    comparison.simulated_step_time = other.step_time;
    comparison.simulated_bubble_fraction = other.bubble_fraction;
    comparison.simulated_step_mean = other.step_mean;
    comparison.simulated_bubble_mean = other.bubble_mean;
    const JudgedStep judged = comparison.judged();
    comparison.step_error = relative_error(judged.simulated, judged.measured).value_or(0);
    compare_lanes(figures.lanes, other.lanes, comparison);
    match_steps(steps, twins, opposite, comparison);
    return comparison;
}
}  // namespace

std::optional<double> relative_error(double predicted, double measured) {
    return measured == 0 ? std::nullopt : std::optional(predicted / measured - 1);
}

std::optional<double> relative_error(Nanoseconds predicted, Nanoseconds measured) {
    return relative_error(static_cast<double>(predicted.count()), static_cast<double>(measured.count()));
}

std::optional<ModelError> model_error(const Comparison& comparison) {
    const Nanoseconds simulated = comparison.simulated_step_mean.value_or(comparison.simulated_step_time);
    const std::optional<double> error = relative_error(simulated, comparison.measured_step_mean);
    if (!error || simulated.count() <= 0) {
        return std::nullopt;
    }
    return ModelError{*error, comparison.measured_standard_error, comparison.steps.size()};
}

void keep_worst(std::vector<ComparedTask>& tasks) {
    constexpr std::size_t kWorst = 10;
    std::erase_if(tasks, [](const ComparedTask& task) { return task.measured == task.simulated; });
    std::stable_sort(tasks.begin(), tasks.end(), [](const ComparedTask& a, const ComparedTask& b) {
        return std::chrono::abs(a.measured - a.simulated) > std::chrono::abs(b.measured - b.simulated);
    });
    tasks.resize(std::min(tasks.size(), kWorst));
}

JudgedStep Comparison::judged() const {
    if (!simulated_step_mean) {
        return {measured_step_time, simulated_step_time, measured_bubble_fraction, simulated_bubble_fraction, false};
    }
    return {measured_step_mean, *simulated_step_mean, measured_bubble_mean,
            simulated_bubble_mean.value_or(simulated_bubble_fraction), true};
}

std::map<std::int32_t, Timeline> compared_tasks(const Measured& measured) {
    std::map<std::int32_t, Timeline> steps;
    for (const std::int32_t step : measured.steps) {
        steps[step] = Timeline{measured.timeline.source, measured.timeline.lanes, {}};
    }
    // One pass, since a run may have very many steps.
    for (const Slice& slice : measured.timeline.slices) {
        const auto found = steps.find(slice.key.step);
        if (found != steps.end() && belongs_to_step(slice, measured.update)) {
            found->second.slices.push_back(slice);
        }
    }
    return steps;
}

std::map<std::int32_t, StepStatistics> statistics_of(const Measured& measured) {
    std::map<std::int32_t, StepStatistics> all = statistics_by_step(measured.timeline, measured.update);
    std::map<std::int32_t, StepStatistics> statistics;
    for (const std::int32_t step : measured.steps) {
        const StepStatistics& each = statistics.emplace(step, std::move(all[step])).first->second;
        if (each.step_time().count() <= 0) {
            throw Error("step " + std::to_string(step) +
                        " has no forward or backward task; a step to compare has both; leave it out, or record again");
        }
    }
    return statistics;
}

RunFigures run_figures(const Measured& measured) {
    require_steps(measured);
    return figures_of(measured, compared_tasks(measured));
}

Timeline typical_step(const Measured& measured) {
    const std::map<std::int32_t, Timeline> steps = compared_tasks(measured);
    const std::map<std::int32_t, StepStatistics> statistics = statistics_of(measured);
    std::map<TaskKey, std::vector<Slice>> found;  // by key without step
    for (const auto& [step, timeline] : steps) {
        const Nanoseconds start = statistics.at(step).start;
        const std::vector<TaskKey> keys = keys_of(timeline.slices);
        for (const TaskJoin::Pair& own : join_tasks(keys, keys).pairs) {  // leaves out repeated tasks
            Slice slice = timeline.slices[own.measured];
            slice.key.step = 0;
            slice.start -= start;
            slice.end -= start;
            found[slice.key].push_back(slice);
        }
    }
    Timeline typical{measured.timeline.source, measured.timeline.lanes, {}};
    for (auto& [key, slices] : found) {
        typical.slices.push_back(median_element(slices, &Slice::duration));
    }
    sort_slices(typical);
    return typical;
}

Comparison compare(const Measured& measured, const Simulation& simulation) {
    require_steps(measured);
    if (simulation.step_time.count() <= 0) {
        throw Error("the simulated step takes 0 ns; a comparison divides by it; check the profile's times");
    }
    std::vector<Slice> twins;
    std::ranges::copy_if(simulation.timeline.slices, std::back_inserter(twins), [&](const Slice& slice) {
        const Update update = simulation.options.update;
        return belongs_to_step(slice, update) && (update == Update::synchronous || slice.key.step == simulation.step);
    });
    const std::map<std::int32_t, Timeline> steps = compared_tasks(measured);
    return compare_sides(steps, figures_of(measured, steps), side_of(simulation), twins, Opposite::simulation);
}

Comparison compare(const Measured& after, const RunFigures& figures, const RunFigures& before,
                   const Timeline& typical) {
    require_steps(after);
    return compare_sides(compared_tasks(after), figures, side_of(before), typical.slices, Opposite::run_before);
}
}  // namespace pipescope
