#include "analysis/replay.h"

#include "base/sample_statistics.h"
#include "schedule/schedules.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "simulator/memory/memory_model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace pipescope {
namespace {
constexpr std::int64_t kNotSeen = std::numeric_limits<std::int64_t>::min();

/// The recorded order of starts, changed only so that no task precedes its dependencies.
std::vector<TaskIndex> recorded_order(const TaskClock& clock, std::span<const std::int64_t> starts) {
    std::vector<std::int64_t> earliest(starts.begin(), starts.end());
    for (TaskIndex task = 0; task < earliest.size(); ++task) {
        for (const std::uint32_t needed : clock.needed(task)) {
            earliest[task] = std::max(earliest[task], earliest[needed]);
        }
    }
    std::vector<TaskIndex> order(earliest.size());
    std::iota(order.begin(), order.end(), TaskIndex{0});
    std::stable_sort(order.begin(), order.end(), [&](TaskIndex a, TaskIndex b) { return earliest[a] < earliest[b]; });
    return order;
}

/// Selects the core that became free last before `ready`. If none is free by then, selects the first to become free.
std::int64_t& core_for(std::vector<std::int64_t>& free_from, std::int64_t ready) {
    return *std::min_element(free_from.begin(), free_from.end(),
                             [&](std::int64_t a, std::int64_t b) { return a <= ready && b <= ready ? a > b : a < b; });
}

/// Length of the step without gaps. Lanes get their cores in the recorded order.
std::int64_t makespan_in_turns(const TaskGraph& graph, const TaskClock& clock, const MeasuredTasks& tasks,
                               std::span<const std::int64_t> durations, const CoresInTurn& turns) {
    std::vector<std::int64_t> starts(durations.size());
    std::vector<std::int64_t> ends(durations.size());
    std::vector<std::int64_t> free_from(static_cast<std::size_t>(turns.cores), 0);
    for (const TaskIndex task : recorded_order(clock, tasks.starts)) {
        for (const std::uint32_t needed : clock.needed(task)) {
            starts[task] = std::max(starts[task], ends[needed]);
        }
        const Task& shape = graph.tasks()[task];
        const bool takes_turns = is_compute(shape.key.kind) && turns.takes_turns[shape.lane.index()];
        if (takes_turns) {
            std::int64_t& core = core_for(free_from, starts[task]);
            starts[task] = std::max(starts[task], core);
            core = starts[task] + durations[task];
        }
        ends[task] = starts[task] + durations[task];
    }
    return makespan(graph, starts, ends);
}

ReplayedStep replay_step(const TaskGraph& graph, const TaskClock& clock, const std::optional<CoresInTurn>& turns,
                         const MeasuredTasks& tasks) {
    const std::size_t count = tasks.ends.size();
    std::vector<std::int64_t> durations(count);
    std::vector<std::int64_t> ready(count);
    std::vector<std::int64_t> gaps(count);
    const std::int64_t begin = *std::min_element(tasks.starts.begin(), tasks.starts.end());
    clock.ready(tasks.ends, begin, ready);
    for (std::size_t task = 0; task < count; ++task) {
        // Copies of one channel that overlap were recorded with their wait for the copy ahead.
        const std::int64_t start = is_copy(graph.tasks()[task].key.kind)
                                       ? std::clamp(ready[task], tasks.starts[task], tasks.ends[task])
                                       : tasks.starts[task];
        durations[task] = tasks.ends[task] - start;
        gaps[task] = std::max<std::int64_t>(0, tasks.starts[task] - ready[task]);
    }
    const std::vector<std::int64_t> none(count, 0);
    return {
        makespan(graph, tasks.starts, tasks.ends),
        turns ? makespan_in_turns(graph, clock, tasks, durations, *turns) : makespan_of(graph, clock, durations, none),
        makespan_of(graph, clock, durations, gaps)};
}

/// Maximum of each lane over the steps; empty if the profile does not know the layers' bytes.
std::vector<Bytes> replayed_peaks(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                                  const TaskGraph& graph, std::span<const MeasuredTasks> steps) {
    constexpr std::size_t kMostSteps = 100;  // a long run's peaks are almost the same as in its first steps
    if (profile.memory_unknown) {
        return {};
    }
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

std::int64_t makespan(const TaskGraph& graph, std::span<const std::int64_t> starts,
                      std::span<const std::int64_t> ends) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {
        if (is_of_step(graph.tasks()[task].key.kind)) {
            first = std::min(first, starts[task]);
            last = std::max(last, ends[task]);
        }
    }
    return last - first;
}

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

std::vector<MeasuredTasks> complete_steps(const Timeline& timeline, std::span<const std::int32_t> steps,
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
    std::erase_if(measured, [](const MeasuredTasks& each) {
        return std::find(each.starts.begin(), each.starts.end(), kNotSeen) != each.starts.end();
    });
    return measured;
}

std::optional<std::vector<MeasuredTasks>> measured_tasks(const Timeline& timeline, std::span<const std::int32_t> steps,
                                                         const TaskGraph& graph) {
    std::vector<MeasuredTasks> measured = complete_steps(timeline, steps, graph);
    const std::set<std::int32_t> asked(steps.begin(), steps.end());
    return !measured.empty() && measured.size() == asked.size() ? std::optional(std::move(measured)) : std::nullopt;
}

ReplayedStep replay_step(const TaskGraph& graph, const MeasuredTasks& tasks, const std::optional<CoresInTurn>& turns) {
    return replay_step(graph, TaskClock(graph), turns, tasks);
}

std::vector<std::int64_t> start_delays(const TaskGraph& graph, const MeasuredTasks& tasks,
                                       const std::vector<bool>& is_instant, const std::optional<CoresInTurn>& turns) {
    const TaskClock clock(graph);
    const std::int64_t begin = *std::ranges::min_element(tasks.starts);
    std::vector<std::int64_t> ends(tasks.ends);
    std::vector<std::int64_t> delays(ends.size());
    std::vector<std::int64_t> free_from(turns ? static_cast<std::size_t>(turns->cores) : 0, begin);
    for (const TaskIndex task : recorded_order(clock, tasks.starts)) {
        std::int64_t ready = begin;
        for (const std::uint32_t needed : clock.needed(task)) {
            ready = std::max(ready, ends[needed]);
        }
        if (is_instant[task]) {
            ends[task] = ready;
            continue;
        }
        const Task& shape = graph.tasks()[task];
        if (turns && is_compute(shape.key.kind) && turns->takes_turns[shape.lane.index()]) {
            std::int64_t& core = core_for(free_from, ready);
            ready = std::max(ready, core);
            core = tasks.ends[task];
        }
        delays[task] = std::max<std::int64_t>(0, tasks.starts[task] - ready);
    }
    return delays;
}

std::optional<Replay> replay(const Measured& measured, const CheckedProfile& profile, const PipelineOptions& options) {
    check_options(options, profile->layers.size());
    if (!is_synchronous(options.schedule) || num_weight_copies(options) > 1 || options.update == Update::staggered) {
        return std::nullopt;
    }
    const TaskCosts costs(profile, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    const auto steps = measured_tasks(measured.timeline, measured.steps, graph);
    if (!steps) {
        return std::nullopt;
    }
    const TaskClock clock(graph);
    const std::optional<CoresInTurn> turns = cores_in_turn(options);
    std::vector<Nanoseconds> times;
    std::vector<Nanoseconds> times_with_gaps;
    std::vector<Nanoseconds> measured_times;
    for (const MeasuredTasks& tasks : *steps) {
        const ReplayedStep step = replay_step(graph, clock, turns, tasks);
        times.emplace_back(step.replayed);
        times_with_gaps.emplace_back(step.with_gaps);
        measured_times.emplace_back(step.measured);
    }
    const Nanoseconds step_time = median(measured_times);
    return Replay{median(times), relative_error(median(times), step_time).value_or(0),
                  relative_error(median(times_with_gaps), step_time).value_or(0),
                  replayed_peaks(profile, options, costs, graph, *steps)};
}
}  // namespace pipescope
