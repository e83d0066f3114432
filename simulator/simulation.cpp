#include "simulator/simulation.h"

#include "schedule/schedules.h"
#include "simulator/memory_model.h"
#include "simulator/noise_band.h"
#include "simulator/task_clock.h"
#include "simulator/task_costs.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace pipescope {
namespace {
TaskGraph graph_of(const PipelineOptions& options, const TaskCosts& costs) {
    return make_schedule(parse_schedule(options.schedule),
                         {.num_partitions = static_cast<int>(options.balance.num_partitions()),
                          .num_micro_batches = static_cast<int>(costs.micro_batches().size()),
                          .checkpoint = options.checkpoint,
                          .placement = options.placement,
                          .skips = costs.routes()});
}

Timeline timeline_of(const PipelineOptions& options, const TaskGraph& graph, const TaskCosts& costs,
                     std::span<const std::int64_t> durations, std::span<const std::int64_t> ends) {
    Timeline timeline{Source::simulated, {}, {}};
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        timeline.lanes.push_back({"lane " + std::to_string(lane), device_of(options, LaneId{lane})});
    }
    timeline.slices.reserve(ends.size());
    for (TaskIndex index = 0; index < ends.size(); ++index) {
        const Task& task = graph.tasks()[index];
        timeline.slices.push_back({task.key, task.lane, Nanoseconds{ends[index] - durations[index]},
                                   Nanoseconds{ends[index]}, costs.bytes(task.key)});
    }
    sort_slices(timeline);
    return timeline;
}

/// Time during which `lanes` keep at most `capacity` cores busy, weighted by how many.
double busy_core_time(const Timeline& timeline, const std::vector<bool>& lanes, int capacity) {
    std::vector<std::pair<std::int64_t, int>> changes;
    for (const Slice& slice : timeline.slices) {
        if (is_compute(slice.key.kind) && lanes[slice.lane.index()] && slice.end > slice.start) {
            changes.emplace_back(slice.start.count(), 1);
            changes.emplace_back(slice.end.count(), -1);
        }
    }
    std::sort(changes.begin(), changes.end());
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

/// Nothing unless some device holds two lanes: then the bubble of a lane says little about what the device does.
std::optional<double> device_idle_fraction(const PipelineOptions& options, const Timeline& timeline, Nanoseconds step) {
    std::map<std::string, std::vector<bool>> lanes_of;
    for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
        auto& lanes = lanes_of[timeline.lanes[lane].device];
        lanes.resize(timeline.lanes.size());
        lanes[lane] = true;
    }
    if (lanes_of.size() == timeline.lanes.size() || step.count() <= 0) {
        return std::nullopt;
    }
    double idle = 0;
    for (const auto& [device, lanes] : lanes_of) {
        const auto sharing = static_cast<int>(std::count(lanes.begin(), lanes.end(), true));
        const bool is_host = device == "cpu";
        const int capacity = !is_host ? 1 : options.host_cores > 0 ? options.host_cores : sharing;
        const double busy = busy_core_time(timeline, lanes, capacity);
        idle += 1 - busy / (static_cast<double>(step.count()) * capacity);
    }
    return idle / static_cast<double>(lanes_of.size());
}

std::vector<SimulatedPartition> partitions_of(const Profile& profile, const PipelineOptions& options) {
    std::vector<SimulatedPartition> partitions;
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const PartitionId partition{static_cast<std::int64_t>(j)};
        const LaneId lane = options.placement.empty() ? LaneId{partition.value()} : options.placement[j];
        SimulatedPartition& each = partitions.emplace_back(
            SimulatedPartition{options.balance.layers_of(partition), lane, device_of(options, lane), 0});
        for (std::size_t l = each.layers.first.index(); l < each.layers.end.index(); ++l) {
            each.parameter_bytes += profile.layers[l].parameter_bytes;
        }
    }
    return partitions;
}

void fill_in_statistics(Simulation& simulation, const TaskCosts& costs) {
    const StepStatistics statistics = step_statistics(simulation.timeline, 0);
    simulation.step_time = statistics.step_time();
    simulation.bubble_fraction = statistics.bubble_fraction;
    simulation.utilization = 1 - statistics.bubble_fraction;
    for (const LaneStatistics& lane : statistics.lanes) {
        simulation.lanes.push_back({lane.busy, lane.bubble_fraction, 0, 0, {}, Nanoseconds{0}});
    }
    if (simulation.step_time.count() > 0) {
        const auto step = static_cast<double>(simulation.step_time.count());
        simulation.speedup = costs.serial_time() / step;
        simulation.samples_per_second = static_cast<double>(simulation.options.batch) / step * 1e9;
    }
    simulation.device_idle_fraction =
        device_idle_fraction(simulation.options, simulation.timeline, simulation.step_time);
}

void fill_in_noise(Simulation& simulation, const TaskGraph& graph, const TaskClock& clock, const TaskCosts& costs,
                   std::span<const std::int64_t> durations) {
    std::vector<double> cvs;
    for (const Task& task : graph.tasks()) {
        cvs.push_back(costs.cv(task));
    }
    if (const std::optional<NoiseBand> band = noise_band(clock, durations, cvs)) {
        const auto rounded = [](double ns) { return Nanoseconds{std::llround(ns)}; };
        simulation.step_band = {rounded(band->low), rounded(band->high)};
        simulation.step_mean = rounded(band->mean);
    }
}

void fill_in_memory(Simulation& simulation, MemoryUse use) {
    for (std::size_t lane = 0; lane < use.lanes.size(); ++lane) {
        SimulatedLane& each = simulation.lanes[lane];
        each.peak_bytes = use.lanes[lane].peak_bytes;
        each.peak_time = use.lanes[lane].peak_time;
        each.peak = std::move(use.lanes[lane].peak);
        const std::optional<Bytes> limit = simulation.options.memory_limit;
        simulation.feasible = simulation.feasible && (!limit || each.peak_bytes <= *limit);
    }
    simulation.memory = std::move(use.samples);
}
}  // namespace

Simulation simulate(const Profile& profile, const PipelineOptions& options, const SimulationDetail& detail) {
    check_profile(profile);
    check_options(options, profile.layers.size());
    const TaskCosts costs(profile, options);
    const TaskGraph graph = graph_of(options, costs);
    const TaskClock clock(graph);

    std::vector<std::int64_t> durations;
    for (const Task& task : graph.tasks()) {
        durations.push_back(costs.duration(task));
    }
    std::vector<std::int64_t> ends(durations.size());
    clock.run(durations, ends);

    Simulation simulation;
    simulation.options = options;
    simulation.micro_batches = static_cast<std::int64_t>(costs.micro_batches().size());
    simulation.extrapolated = costs.extrapolated();
    simulation.estimated = profile.estimated;
    simulation.partitions = partitions_of(profile, options);
    simulation.timeline = timeline_of(options, graph, costs, durations, ends);
    fill_in_statistics(simulation, costs);
    if (detail.noise) {
        fill_in_noise(simulation, graph, clock, costs, durations);
    }
    if (detail.memory) {
        fill_in_memory(simulation, memory_use(profile, options, costs, graph, durations, ends));
    }
    return simulation;
}
}  // namespace pipescope
