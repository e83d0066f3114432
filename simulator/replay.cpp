#include "simulator/replay.h"

#include "schedule/median.h"
#include "schedule/schedules.h"
#include "simulator/contention.h"
#include "simulator/memory_model.h"
#include "simulator/pipeline_graph.h"
#include "simulator/step_clock.h"
#include "simulator/task_clock.h"
#include "simulator/task_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace pipescope {
namespace {
constexpr std::int64_t kNotSeen = std::numeric_limits<std::int64_t>::min();

/// First start to last end of what counts as the step.
std::int64_t makespan(const TaskGraph& graph, std::span<const std::int64_t> starts,
                      std::span<const std::int64_t> ends) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {
        if (is_compute(graph.tasks()[task].key.kind)) {
            first = std::min(first, starts[task]);
            last = std::max(last, ends[task]);
        }
    }
    return last - first;
}

/// Of the graph run with these durations, a gap before each task counted to it.
std::int64_t makespan_of(const TaskGraph& graph, const TaskClock& clock, std::span<const std::int64_t> durations,
                         std::span<const std::int64_t> gaps) {
    std::vector<std::int64_t> lengths(durations.begin(), durations.end());
    std::transform(lengths.begin(), lengths.end(), gaps.begin(), lengths.begin(), std::plus<>());
    std::vector<std::int64_t> ends(durations.size());
    clock.run(std::span<const std::int64_t>(lengths), ends);
    std::vector<std::int64_t> starts(durations.size());
    std::transform(ends.begin(), ends.end(), durations.begin(), starts.begin(), std::minus<>());
    return makespan(graph, starts, ends);
}

/// Likewise without gaps, lanes waiting for cores where they took turns.
std::int64_t makespan_of(const TaskGraph& graph, StepClock& clock, std::span<const std::int64_t> durations) {
    const std::vector<double> lengths(durations.begin(), durations.end());
    std::vector<double> starts(lengths.size());
    std::vector<double> ends(lengths.size());
    clock.run(lengths, starts, ends);
    const auto rounded = [](const std::vector<double>& times) {
        std::vector<std::int64_t> whole(times.size());
        std::transform(times.begin(), times.end(), whole.begin(), [](double ns) { return std::llround(ns); });
        return whole;
    };
    return makespan(graph, rounded(starts), rounded(ends));
}

ReplayedStep replay_step(const TaskGraph& graph, const TaskClock& clock, StepClock& turns, const MeasuredTasks& tasks) {
    const std::size_t count = tasks.ends.size();
    std::vector<std::int64_t> durations(count);
    std::vector<std::int64_t> ready(count);
    std::vector<std::int64_t> gaps(count);
    const std::int64_t begin = *std::min_element(tasks.starts.begin(), tasks.starts.end());
    clock.ready(tasks.ends, begin, ready);
    for (std::size_t task = 0; task < count; ++task) {
        durations[task] = tasks.ends[task] - tasks.starts[task];
        gaps[task] = std::max<std::int64_t>(0, tasks.starts[task] - ready[task]);
    }
    return {makespan(graph, tasks.starts, tasks.ends), makespan_of(graph, turns, durations),
            makespan_of(graph, clock, durations, gaps)};
}

double error_of(std::int64_t replayed, std::int64_t measured) {
    return static_cast<double>(replayed) / static_cast<double>(std::max<std::int64_t>(1, measured)) - 1;
}

/// Highest of each lane over the steps.
std::vector<Bytes> replayed_peaks(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                                  const TaskGraph& graph, std::span<const MeasuredTasks> steps) {
    constexpr std::size_t kMostSteps = 100;  // a long run's peaks are those of its first steps, within little
    std::vector<Bytes> peaks(static_cast<std::size_t>(graph.num_lanes()), 0);
    for (const MeasuredTasks& step : steps.first(std::min(kMostSteps, steps.size()))) {
        const MemoryUse use = memory_use(profile, options, costs, graph, step.starts, step.ends);
        for (std::size_t lane = 0; lane < peaks.size(); ++lane) {
            peaks[lane] = std::max(peaks[lane], use.lanes[lane].peak_bytes);
        }
    }
    return peaks;
}
}  // namespace

std::optional<std::vector<MeasuredTasks>> measured_tasks(const Timeline& timeline, std::span<const std::int32_t> steps,
                                                         const TaskGraph& graph) {
    const std::size_t count = graph.tasks().size();
    std::map<std::int32_t, std::size_t> place;
    for (const std::int32_t step : steps) {
        place.emplace(step, place.size());
    }
    std::vector<MeasuredTasks> measured(place.size());
    for (MeasuredTasks& each : measured) {
        each.starts.assign(count, kNotSeen);
        each.ends.assign(count, kNotSeen);
    }
    for (const Slice& slice : timeline.slices) {
        const auto step = place.find(slice.key.step);
        if (step == place.end()) {
            continue;
        }
        if (const auto task = graph.find(slice.key)) {
            MeasuredTasks& each = measured[step->second];
            each.starts[*task] = slice.start.count();
            each.ends[*task] = slice.end.count();
        }
    }
    const bool complete = std::all_of(measured.begin(), measured.end(), [](const MeasuredTasks& each) {
        return std::find(each.starts.begin(), each.starts.end(), kNotSeen) == each.starts.end();
    });
    return complete && !measured.empty() ? std::optional(std::move(measured)) : std::nullopt;
}

ReplayedStep replay_step(const TaskGraph& graph, const MeasuredTasks& tasks, std::optional<SharedResources> turns) {
    StepClock clock(graph, std::move(turns));
    return replay_step(graph, TaskClock(graph), clock, tasks);
}

std::optional<Replay> replay(const Measured& measured, const Profile& profile, const PipelineOptions& options) {
    check_profile(profile);
    check_options(options, profile.layers.size());
    if (!is_synchronous(parse_schedule(options.schedule)) || options.replicas > 1) {
        return std::nullopt;
    }
    const TaskCosts costs(profile, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    const auto steps = measured_tasks(measured.timeline, measured.steps, graph);
    if (!steps) {
        return std::nullopt;
    }
    const TaskClock clock(graph);
    StepClock turns(graph, core_turns(options, graph));
    std::vector<Nanoseconds> times;
    std::vector<double> errors;
    std::vector<double> errors_with_gaps;
    for (const MeasuredTasks& tasks : *steps) {
        const ReplayedStep step = replay_step(graph, clock, turns, tasks);
        times.emplace_back(step.replayed);
        errors.push_back(error_of(step.replayed, step.measured));
        errors_with_gaps.push_back(error_of(step.with_gaps, step.measured));
    }
    return Replay{median(times), median(errors), median(errors_with_gaps),
                  replayed_peaks(profile, options, costs, graph, *steps)};
}
}  // namespace pipescope
