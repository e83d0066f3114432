#include "simulator/simulation.h"

#include "base/error.h"
#include "base/time_sort.h"
#include "schedule/schedules.h"
#include "simulator/clock/contention.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/clock/virtual_clock.h"
#include "simulator/memory/gradient_buckets.h"
#include "simulator/memory/memory_model.h"
#include "simulator/noise_band.h"
#include "simulator/steady_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace pipescope {
namespace {
constexpr double kLatest = 8e18;     // fits 64 bits, in ns
constexpr int kFewestStaggered = 4;  // staggered, in a row: two to fill, the one measured, one that overlaps it
constexpr int kMostStaggered = 32;   // if their period does not settle sooner

/// When each task runs, in whole ns.
struct TaskTimes {
    std::vector<std::int64_t> durations;  ///< without slowdown by sharing
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
};

/// Copies that keep lanes from computing (Sends).
struct BlockingCopies {
    struct Copy {
        TaskIndex producer = 0;
        TaskIndex copy = 0;
        std::optional<TaskIndex> consumer;  ///< if its lane is busy with the message, too
        std::int64_t ns = 0;
    };
    std::vector<Copy> copies;  ///< in the order of their sends

    /// The clock runs a task and its messages as one task, and the copies take no time of their own.
    void merge(std::vector<std::int64_t>& durations) const {
        for (const Copy& each : copies) {
            durations[each.producer] += each.ns;
            durations[each.copy] = 0;
            if (each.consumer) {
                durations[*each.consumer] += each.ns;
            }
        }
    }
    /// Takes the copies out of the tasks again.
    void part(TaskTimes& times) const {
        for (auto each = copies.rbegin(); each != copies.rend(); ++each) {
            times.durations[each->producer] -= each->ns;
            times.durations[each->copy] = each->ns;
            times.ends[each->copy] = times.ends[each->producer];
            times.ends[each->producer] -= each->ns;
            times.starts[each->copy] = times.ends[each->producer];
            if (each->consumer) {
                times.durations[*each->consumer] -= each->ns;
                times.starts[*each->consumer] += each->ns;
            }
        }
    }
};

BlockingCopies blocking_copies(const PipelineOptions& options, const TaskGraph& graph, const TaskCosts& costs) {
    const auto computes = [&](TaskIndex index, LaneId lane) {
        const Task& task = graph.tasks()[index];
        return is_compute(task.key.kind) && task.lane == lane;
    };
    BlockingCopies blocking;
    for (TaskIndex index = 0; index < graph.tasks().size(); ++index) {
        const Task& task = graph.tasks()[index];
        const Sends sends =
            is_copy(task.key.kind) ? link_between(options.hardware, task.lane, task.receiver).sends : Sends::overlapped;
        if (sends == Sends::overlapped) {
            continue;
        }
        const auto before =
            std::ranges::find_if(graph.dependencies(index), [&](TaskIndex each) { return computes(each, task.lane); });
        if (before == graph.dependencies(index).end()) {
            continue;
        }
        blocking.copies.push_back({*before, index, std::nullopt, costs.duration(task)});
        BlockingCopies::Copy& copy = blocking.copies.back();
        const auto after = std::ranges::find_if(graph.dependents(index),
                                                [&](TaskIndex each) { return computes(each, task.receiver); });
        if (sends == Sends::serial && after != graph.dependents(index).end()) {
            copy.consumer = *after;
        }
    }
    return blocking;
}

/// Shortens the tasks that run as one: a share of the forward or of the backward, whichever is shorter, takes no time.
/// All of them become shorter alike. The loss counts with the forward.
void overlap_pairs(const TaskGraph& graph, double share, std::vector<std::int64_t>& durations) {
    for (std::size_t k = 0; k < graph.joints().size(); ++k) {
        const std::span<const TaskIndex> tasks = graph.joints().at(k);
        std::int64_t forward = 0;
        std::int64_t backward = 0;
        for (const TaskIndex task : tasks) {
            const TaskKind kind = graph.tasks()[task].key.kind;
            (kind == TaskKind::forward || kind == TaskKind::loss ? forward : backward) += durations[task];
        }
        const std::int64_t both = forward + backward;
        const double left = static_cast<double>(both) - share * static_cast<double>(std::min(forward, backward));
        std::int64_t before = 0;  // of the tasks so far, unshortened
        for (const TaskIndex task : tasks) {
            const auto at = [&](std::int64_t time) {
                return both == 0 ? 0 : std::llround(left * (static_cast<double>(time) / static_cast<double>(both)));
            };
            const std::int64_t length = durations[task];
            durations[task] = at(before + length) - at(before);
            before += length;
        }
    }
}

TaskTimes run_once(const Profile& profile, const PipelineOptions& options, const TaskGraph& graph,
                   const TaskCosts& costs, const BlockingCopies& blocking, VirtualClock& clock) {
    if (!blocking.copies.empty() && clock.shares()) {
        throw UsageError(
            "sends are not overlapped while lanes share devices, links or a launching host; only lanes that share "
            "nothing "
            "can wait for their copies; leave one or the other out");
    }
    TaskTimes times;
    times.durations.reserve(graph.tasks().size());
    for (const Task& task : graph.tasks()) {
        times.durations.push_back(costs.duration(task));
    }
    if (options.pair_overlap) {
        overlap_pairs(graph, *options.pair_overlap, times.durations);
    }
    blocking.merge(times.durations);
    const std::vector<double> durations(times.durations.begin(), times.durations.end());
    std::vector<double> starts(durations.size());
    std::vector<double> ends(durations.size());
    clock.run(durations, starts, ends);
    // The tasks alone fit (TaskCosts), but sharing adds time.
    if (const double last = *std::ranges::max_element(ends); !(last < kLatest)) {
        throw UsageError("the step would take " + std::to_string(last) +
                         " ns; it must stay below 8e18 ns; use a smaller batch, or correct the profile's launch_ns or "
                         "co_running_slowdown");
    }
    for (std::size_t task = 0; task < ends.size(); ++task) {
        times.starts.push_back(std::llround(starts[task]));
        times.ends.push_back(std::llround(ends[task]));
    }
    blocking.part(times);
    if (options.gradient_bucket > 0 && sums_gradients(options)) {
        play_buckets(profile, options, costs, graph, times.starts, times.ends);
    }
    return times;
}

/// The durations for a clock that runs sums once a lane has ended, of which buckets hid a part.
std::vector<std::int64_t> durations_for_noise(const PipelineOptions& options, const TaskGraph& graph,
                                              const TaskTimes& times) {
    std::vector<std::int64_t> durations = times.durations;
    if (options.gradient_bucket == 0) {
        return durations;
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        std::int64_t ended = 0;
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            if (graph.tasks()[task].key.kind == TaskKind::all_reduce) {
                durations[task] = std::max<std::int64_t>(0, times.ends[task] - ended);
            }
            ended = std::max(ended, times.ends[task]);
        }
    }
    return durations;
}

Timeline timeline_of(const PipelineOptions& options, const TaskGraph& graph, const TaskCosts& costs,
                     const TaskTimes& times) {
    Timeline timeline{Source::simulated, {}, {}};
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        timeline.lanes.push_back({"lane " + std::to_string(lane), device_of(options.hardware, LaneId{lane})});
    }
    struct Start {
        std::int64_t time = 0;
        TaskIndex task = 0;
    };
    std::vector<Start> order(times.starts.size());
    for (TaskIndex index = 0; index < times.starts.size(); ++index) {
        order[index] = {times.starts[index], index};
    }
    sort_by_time(order);
    timeline.slices.reserve(order.size());
    for (const auto& [start, index] : order) {
        const Task& task = graph.tasks()[index];
        timeline.slices.push_back(
            {task.key, task.lane, Nanoseconds{start}, Nanoseconds{times.ends[index]}, costs.bytes(task.key)});
    }
    sort_slices(timeline);
    return timeline;
}

/// Time that `lanes` keep cores busy, weighted by their number, which is at most `capacity`.
double busy_core_time(const Timeline& timeline, const std::vector<bool>& lanes, int capacity) {
    std::vector<std::pair<std::int64_t, int>> changes;
    for (const Slice& slice : timeline.slices) {
        if (is_compute(slice.key.kind) && lanes[slice.lane.index()] && slice.end > slice.start) {
            changes.emplace_back(slice.start.count(), 1);
            changes.emplace_back(slice.end.count(), -1);
        }
    }
    std::ranges::sort(changes);
    double busy = 0;
    int active = 0;
    std::int64_t since = 0;
    for (const auto& [time, change] : changes) {
        busy += static_cast<double>(time - since) * std::min(active, capacity);
        active += change;
        since = time;
    }
    return busy;
}

/// The timeline's slices within that time, cut at its edges.
Timeline within(const Timeline& timeline, Nanoseconds start, Nanoseconds end) {
    Timeline cut{timeline.source, timeline.lanes, {}};
    for (Slice slice : timeline.slices) {
        slice.start = std::max(slice.start, start);
        slice.end = std::min(slice.end, end);
        if (slice.end > slice.start) {
            cut.slices.push_back(slice);
        }
    }
    return cut;
}

/// Empty unless some device holds two lanes: then a lane's bubble says little about the device.
std::optional<double> device_idle_fraction(const PipelineOptions& options, const Timeline& timeline, Nanoseconds step) {
    std::map<std::pair<int, std::string>, std::vector<bool>> lanes_of;  // by process and device
    const auto count = static_cast<int>(timeline.lanes.size());
    for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
        const int process = process_of(options.hardware, LaneId{static_cast<std::int64_t>(lane)}, count);
        auto& lanes = lanes_of[{process, timeline.lanes[lane].device}];
        lanes.resize(timeline.lanes.size());
        lanes[lane] = true;
    }
    if (lanes_of.size() == timeline.lanes.size() || step.count() <= 0) {
        return std::nullopt;
    }
    double idle = 0;
    for (const auto& [device, lanes] : lanes_of) {
        const auto sharing = static_cast<int>(std::ranges::count(lanes, true));
        const bool is_host = device.second == kHost;
        const int capacity = !is_host ? 1 : options.hardware.host_cores > 0 ? options.hardware.host_cores : sharing;
        const double busy = busy_core_time(timeline, lanes, capacity);
        idle += 1 - busy / (static_cast<double>(step.count()) * capacity);
    }
    return idle / static_cast<double>(lanes_of.size());
}

std::vector<SimulatedPartition> partitions_of(const Profile& profile, const PipelineOptions& options) {
    std::vector<SimulatedPartition> partitions;
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const PartitionId partition{static_cast<std::int64_t>(j)};
        const std::vector<LaneId> lanes = lanes_of(options, partition);
        const LaneId lane = lanes.front();
        SimulatedPartition& each = partitions.emplace_back(
            SimulatedPartition{options.balance.layers_of(partition), lane, device_of(options.hardware, lane), 0});
        if (lanes.size() > 1) {
            each.mirror_lane = lanes.back();
        }
        for (std::size_t l = each.layers.first.index(); l < each.layers.end.index(); ++l) {
            each.parameter_bytes += profile.layers[l].parameter_bytes;
        }
    }
    return partitions;
}

/// By lane, the time in which it sums gradients over replicas and computes nothing.
std::vector<Nanoseconds> exposed_sums(const Simulation& simulation, std::size_t lanes) {
    std::vector<Nanoseconds> exposed(lanes);
    if (!sums_gradients(simulation.options)) {
        return exposed;
    }
    struct Slices {
        std::vector<const Slice*> computed;  // in order of time; a lane's tasks follow each other
        std::vector<const Slice*> summed;
    };
    std::vector<Slices> of_lane(lanes);
    for (const Slice& slice : simulation.timeline.slices) {
        if (is_compute(slice.key.kind)) {
            of_lane[slice.lane.index()].computed.push_back(&slice);
        } else if (slice.key.kind == TaskKind::all_reduce) {
            of_lane[slice.lane.index()].summed.push_back(&slice);
        }
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        Nanoseconds from{0};  // counted until then; sums of different weights may run at the same time
        auto task = of_lane[lane].computed.begin();
        const auto end = of_lane[lane].computed.end();
        for (const Slice* sum : of_lane[lane].summed) {
            from = std::max(from, sum->start);
            for (; task != end && (*task)->start < sum->end; ++task) {
                exposed[lane] += std::max(Nanoseconds{0}, (*task)->start - from);
                from = std::max(from, (*task)->end);
            }
            exposed[lane] += std::max(Nanoseconds{0}, sum->end - from);
            from = std::max(from, sum->end);
        }
    }
    return exposed;
}

/// `period`: the step time of a schedule that never drains.
void fill_in_statistics(Simulation& simulation, double serial_time, std::optional<Nanoseconds> period) {
    const StepStatistics statistics = simulated_step_statistics(simulation, simulation.timeline);
    simulation.step_time = period.value_or(statistics.step_time());
    const auto step = static_cast<double>(simulation.step_time.count());
    const std::vector<Nanoseconds> sums = exposed_sums(simulation, statistics.lanes.size());
    for (const LaneStatistics& lane : statistics.lanes) {
        const double bubble = step > 0 ? 1 - static_cast<double>(lane.busy.count()) / step : 0;
        simulation.lanes.push_back({lane.busy, sums[simulation.lanes.size()], bubble, 0, {}, {}});
        simulation.bubble_fraction += bubble / static_cast<double>(statistics.lanes.size());
    }
    simulation.utilization = 1 - simulation.bubble_fraction;
    if (step > 0) {
        simulation.speedup = simulation.options.replicas * serial_time / step;
        simulation.samples_per_second = static_cast<double>(simulation.options.batch) / step * 1e9;
    }
    simulation.device_idle_fraction = device_idle_fraction(
        simulation.options, within(simulation.timeline, statistics.start, statistics.end), simulation.step_time);
}

/// Mini-batches in a row on the virtual clock.
struct RunInARow {
    RunInARow(const Profile& profile, const PipelineOptions& options, int mini_batches)
        : costs(profile, options, mini_batches),
          graph(pipeline_graph(options, costs)),
          blocking(blocking_copies(options, graph, costs)),
          clock(graph, shared_resources(profile, options, graph), host_launches(profile, options, graph),
                message_turns(options, graph)),
          times(run_once(profile, options, graph, costs, blocking, clock)) {}

    TaskCosts costs;
    TaskGraph graph;
    BlockingCopies blocking;
    VirtualClock clock;
    TaskTimes times;
};

/// From the first start to the last end.
SteadyWindow range_of(const Timeline& timeline) {
    SteadyWindow range{Nanoseconds::max(), Nanoseconds::min()};
    for (const Slice& slice : timeline.slices) {
        range.start = std::min(range.start, slice.start);
        range.end = std::max(range.end, slice.end);
    }
    return range;
}

/// The step as first start to last end of the tasks that count, or the period of a steady state.
StepOfTimes step_of(const TaskGraph& graph, std::optional<SteadyTasks> steady) {
    if (steady) {
        return [steady = *steady](std::span<const double>, std::span<const double> ends) {
            const auto end_of = [&](const std::vector<TaskIndex>& tasks) {
                double end = 0;
                for (const TaskIndex task : tasks) {
                    end = std::max(end, ends[task]);
                }
                return end;
            };
            return end_of(steady.last) - end_of(steady.before);
        };
    }
    std::vector<TaskIndex> counted;
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {
        if (is_of_step(graph.tasks()[task].key.kind)) {
            counted.push_back(task);
        }
    }
    return [counted](std::span<const double> starts, std::span<const double> ends) {
        double first = std::numeric_limits<double>::infinity();
        double last = 0;
        for (const TaskIndex task : counted) {
            first = std::min(first, starts[task]);
            last = std::max(last, ends[task]);
        }
        return last - first;
    };
}

/// Noise of a step against a profile of the same machine at another time. The part that all lanes share varies by the
/// profile's step_cv in both, and the simulator itself is inexact.
StepNoise noise_of(const TaskGraph& graph, const TaskCosts& costs, const Profile& profile, int replicas) {
    const bool is_of_a_machine = profile.host_cores > 0 || profile.step_cv > 0;
    const double shared = profile.step_cv * profile.step_cv - profile.lane_cv * profile.lane_cv;
    StepNoise noise;
    noise.replicas = replicas;
    noise.lane_cv = profile.lane_cv;
    noise.common_cv = std::hypot(std::sqrt(2 * std::max(0.0, shared)), is_of_a_machine ? kPredictionCv : 0);
    for (const Task& task : graph.tasks()) {
        noise.own.push_back(costs.cv(task));
        noise.lanes.push_back(is_compute(task.key.kind) ? task.lane.value() : -1);
    }
    return noise;
}

void fill_in_noise(Simulation& simulation, VirtualClock& clock, std::span<const std::int64_t> durations,
                   const StepNoise& noise, const StepOfTimes& step) {
    if (const std::optional<NoiseBand> band = noise_band(clock, durations, noise, step)) {
        const auto rounded = [](double ns) { return Nanoseconds{std::llround(std::min(ns, kLatest))}; };
        // Noise cannot shorten the expected step (Jensen: a step is a maximum of sums), but a sample of it can.
        const Nanoseconds mean = std::max(rounded(band->mean), simulation.step_time);
        const auto longer =
            static_cast<double>(mean.count()) / std::max(1.0, static_cast<double>(simulation.step_time.count()));
        const double bubble = longer > 0 ? std::max(0.0, 1 - (1 - simulation.bubble_fraction) / longer) : 0;
        simulation.noise = StepBand{rounded(band->low), rounded(band->high), mean, bubble, band->standard_error};
    }
}

void fill_in_memory(Simulation& simulation, MemoryUse use, bool with_reserved) {
    const std::vector<Bytes> limits = memory_limits_of(simulation.options.hardware, static_cast<int>(use.lanes.size()));
    for (std::size_t lane = 0; lane < use.lanes.size(); ++lane) {
        SimulatedLane& each = simulation.lanes[lane];
        each.peak_bytes = use.lanes[lane].peak_bytes;
        if (with_reserved) {
            each.peak_reserved_bytes = use.lanes[lane].peak_reserved_bytes;
        }
        each.peak = use.lanes[lane].peak;
        simulation.feasible = simulation.feasible && (limits.empty() || each.peak_bytes <= limits[lane]);
    }
    simulation.memory = std::move(use.samples);
}
}  // namespace

StepStatistics simulated_step_statistics(const Simulation& simulation, const Timeline& timeline) {
    return simulation.options.update == Update::staggered
               ? statistics_by_step(timeline, Update::staggered)[simulation.step]
               : one_step_statistics(timeline);
}

namespace {
/// `pipeline`: time of the pipeline, with or without noise.
StepFigures step_figures(const Simulation& simulation, Nanoseconds pipeline, double bubble, double utilization) {
    const Nanoseconds step = pipeline + simulation.after_pipeline;
    const double shorter =
        step.count() > 0 ? static_cast<double>(simulation.step_time.count()) / static_cast<double>(step.count()) : 1;
    double sums = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        sums += static_cast<double>(lane.sums.count()) / static_cast<double>(simulation.lanes.size());
    }
    const double share = pipeline.count() > 0 ? sums / static_cast<double>(pipeline.count()) : 0;
    return {step, bubble, share, utilization, simulation.speedup * shorter, simulation.samples_per_second * shorter};
}
}  // namespace

StepBand longer_by(StepBand band, Nanoseconds more) {
    band.low += more;
    band.high += more;
    band.mean += more;
    return band;
}

StepFigures figures_without_noise(const Simulation& simulation) {
    return step_figures(simulation, simulation.step_time, simulation.bubble_fraction, simulation.utilization);
}

StepFigures expected_figures(const Simulation& simulation) {
    if (!simulation.noise || simulation.noise->mean.count() <= 0) {
        return figures_without_noise(simulation);
    }
    const StepBand& noise = *simulation.noise;
    return step_figures(simulation, noise.mean, noise.bubble, 1 - noise.bubble);
}

std::pair<StepFigures, StepFigures> comparable_figures(const Simulation& one, const Simulation& other) {
    const auto figures = one.noise && other.noise ? expected_figures : figures_without_noise;
    return {figures(one), figures(other)};
}

double mean_busy_ns(const Simulation& simulation) {
    double busy = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        busy += static_cast<double>(lane.busy.count());
    }
    return simulation.lanes.empty() ? 0 : busy / static_cast<double>(simulation.lanes.size());
}

StepChange step_change(const Simulation& from, const Simulation& to) {
    const auto [of_from, of_to] = comparable_figures(from, to);
    const double work = mean_busy_ns(from);
    return {work > 0 ? mean_busy_ns(to) / work : 1, of_to.bubble - of_from.bubble};
}

double relative_throughput(const Simulation& one, const Simulation& other) {
    const auto [of_one, of_other] = comparable_figures(one, other);
    return of_other.samples_per_second > 0 ? of_one.samples_per_second / of_other.samples_per_second : 1;
}

bool has_noise(const Profile& profile) {
    return profile.host_cores > 0 || profile.step_cv > 0 || profile.lane_cv > 0 ||
           std::ranges::any_of(profile.layers,
                               [](const LayerProfile& layer) { return layer.forward_cv > 0 || layer.backward_cv > 0; });
}

void add_noise(const CheckedProfile& profile, Simulation& simulation) {
    if (!has_noise(profile)) {
        return;
    }
    simulation.noise = simulate(profile, simulation.options, {.noise = true, .memory = false}).noise;
}

void check_simulated(const CheckedProfile& profile, const PipelineOptions& options) {
    check_options(options, profile->layers.size());
    check_master_weights(options, profile->dtype);
    check_memory_known(profile, options.hardware);
}

Simulation simulate(const CheckedProfile& profile, const PipelineOptions& options, const SimulationDetail& detail) {
    check_simulated(profile, options);
    if (options.schedule == Schedule::automatic) {
        throw UsageError(
            "the schedule is auto, whose order depends on costs; simulate() takes a schedule that has an order; find "
            "it first, with find_and_simulate()");
    }
    const bool is_staggered = options.update == Update::staggered;
    const bool drains = is_synchronous(options.schedule) && !is_staggered;
    const auto m = static_cast<int>(micro_batch_sizes(options).size());
    const int mini_batches = drains ? 1
                             : is_staggered
                                 ? kFewestStaggered
                                 : mini_batches_to_settle(static_cast<int>(options.balance.num_partitions()), m);
    std::optional<RunInARow> run(std::in_place, profile, options, mini_batches);
    while (is_staggered && run->costs.mini_batches() < kMostStaggered &&
           !is_settled(run->graph, run->times.ends, run->costs.mini_batches() - 2)) {
        run.emplace(profile, options, 2 * run->costs.mini_batches());
    }
    const TaskCosts& costs = run->costs;
    const TaskGraph& graph = run->graph;
    const TaskTimes& times = run->times;

    Simulation simulation;
    simulation.options = options;
    simulation.micro_batches = m;
    simulation.extrapolated = costs.extrapolated();
    simulation.estimated = profile->estimated;
    simulation.memory_unknown = profile->memory_unknown;
    simulation.dtype = profile->dtype;
    simulation.tokens_per_sample = profile->tokens_per_sample;
    simulation.flops = model_flops(profile, options);
    simulation.partitions = partitions_of(profile, options);
    simulation.timeline = timeline_of(options, graph, costs, times);
    std::optional<SteadyTasks> steady;
    std::optional<SteadyWindow> window;  // of the timeline and the samples
    std::optional<Nanoseconds> period;
    const int step = costs.mini_batches() - 2;  // among staggered ones
    if (is_staggered) {
        steady = updates_around(graph, step);
        simulation.step = Simulation::kStaggeredStep;
        simulation.timeline = steps_around(simulation.timeline, step, m);
        window = range_of(simulation.timeline);
        for (Slice& slice : simulation.timeline.slices) {
            slice.start -= window->start;
            slice.end -= window->start;
        }
    } else if (!drains) {
        steady = steady_tasks(graph, mini_batches);
        window = {Nanoseconds{times.ends[steady->before.front()]}, Nanoseconds{times.ends[steady->last.front()]}};
        period = window->period();
        simulation.timeline = cut_to(simulation.timeline, *window, m);
    }
    fill_in_statistics(simulation, costs.serial_time(), period);
    if (detail.noise) {
        std::vector<std::int64_t> durations = durations_for_noise(options, graph, times);
        run->blocking.merge(durations);
        fill_in_noise(simulation, run->clock, durations, noise_of(graph, costs, profile, options.replicas),
                      step_of(graph, steady));
    }
    if (detail.memory && !profile->memory_unknown) {
        fill_in_memory(simulation,
                       memory_use(profile, options, costs, graph, times.starts, times.ends, detail.reserved,
                                  detail.memory_over_time),
                       detail.reserved);
        if (window) {
            simulation.memory = is_staggered ? samples_around(simulation.memory, *window, step, m)
                                             : cut_to(simulation.memory, *window, m);
        }
    }
    return simulation;
}
}  // namespace pipescope
