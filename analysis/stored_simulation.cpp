#include "analysis/stored_simulation.h"

#include "analysis/step_peaks.h"
#include "profiler/profile/profile_file.h"
#include "schedule/schedules.h"
#include "trace/store/pipeline_json.h"
#include "trace/store/trace_writer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <tuple>

namespace pipescope {
namespace {
bool before(const Slice& a, const Slice& b) {
    return std::tie(a.key, a.lane, a.start, a.end, a.bytes) < std::tie(b.key, b.lane, b.start, b.end, b.bytes);
}

std::vector<Slice> sorted(std::vector<Slice> slices) {
    std::sort(slices.begin(), slices.end(), before);
    return slices;
}

/// Number of slices in `these` but not in `those`.
std::size_t count_others(const std::vector<Slice>& these, const std::vector<Slice>& those) {
    std::vector<Slice> others;
    std::set_difference(these.begin(), these.end(), those.begin(), those.end(), std::back_inserter(others), before);
    return others.size();
}

/// By lane and time, as in files; a simulation orders the samples of all lanes by time.
std::vector<MemorySample> by_lane(std::vector<MemorySample> samples) {
    std::ranges::stable_sort(samples, {}, [](const MemorySample& each) { return std::tuple(each.lane, each.time); });
    return samples;
}

void take_figures(Simulation& simulation, const Timeline& stored) {
    StepStatistics found = simulated_step_statistics(simulation, stored);
    found.lanes.resize(stored.lanes.size());
    const double quicker = found.step_time().count() > 0 ? static_cast<double>(simulation.step_time.count()) /
                                                               static_cast<double>(found.step_time().count())
                                                         : 0.0;
    simulation.step_time = found.step_time();
    simulation.bubble_fraction = found.bubble_fraction;
    simulation.utilization = 1 - found.bubble_fraction;
    simulation.speedup *= quicker;
    simulation.samples_per_second *= quicker;
    simulation.noise.reset();
    simulation.lanes.resize(stored.lanes.size());
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        simulation.lanes[lane].busy = found.lanes[lane].busy;
        simulation.lanes[lane].bubble_fraction = found.lanes[lane].bubble_fraction;
    }
}
}  // namespace

StepStatistics one_step_statistics(const Simulation& simulation) {
    StepStatistics statistics;
    // A steady state's window begins with the timeline, so every lane may be waiting there.
    if (is_synchronous(simulation.options.schedule)) {
        statistics.start = simulated_step_statistics(simulation, simulation.timeline).start;
    }
    statistics.end = statistics.start + simulation.step_time;
    statistics.bubble_fraction = simulation.bubble_fraction;
    for (const SimulatedLane& lane : simulation.lanes) {
        statistics.lanes.push_back({lane.busy, lane.bubble_fraction});
    }
    return statistics;
}

std::optional<TraceWarning> take_stored_tasks(Simulation& simulation, const Timeline& stored,
                                              const std::vector<MemorySample>& memory) {
    if (stored.slices.empty()) {
        return std::nullopt;
    }
    const std::vector<Slice> found = sorted(stored.slices);
    const bool same_memory = simulation.memory_unknown || by_lane(memory) == by_lane(simulation.memory);
    const std::vector<Slice> expected = sorted(simulation.timeline.slices);
    const std::size_t added = count_others(found, expected);
    const std::size_t removed = count_others(expected, found);
    const bool differ = added > 0 || removed > 0;
    if (differ) {
        take_figures(simulation, stored);
    }
    simulation.timeline = stored;
    simulation.memory = simulation.memory_unknown ? std::vector<MemorySample>() : memory;
    // If the samples are equal, keeps the peaks: they cover the whole run, of which a steady state's window is a part.
    if (!same_memory) {
        constexpr TimeRange kAlways{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
        const auto peaks = measured_peaks(memory, {kAlways}, simulation.lanes.size());
        for (std::size_t lane = 0; lane < peaks.size(); ++lane) {
            if (peaks[lane]) {
                simulation.lanes[lane].peak_bytes = peaks[lane]->bytes;
            }
        }
    }
    if (!differ) {
        return std::nullopt;
    }
    return TraceWarning{
        Severity::caution,
        fmt::format("the simulated tasks in this file are not those of its profile and configuration ({} added or "
                    "changed, {} removed or changed): the file is damaged, or another version of PipeScope simulated "
                    "it; simulate again",
                    added, removed)};
}

void write_simulation(const std::filesystem::path& path, const Profile& profile, const Simulation& simulation,
                      const std::optional<StepOnCluster>& on_cluster) {
    TraceWriter writer(path, IfExists::replace);
    writer.set_run("model", nlohmann::json(profile.model).dump());
    writer.set_run("configuration", to_json(simulation.options));
    nlohmann::json facts = nlohmann::json::object();
    if (simulation.lower_bound) {
        facts["lower_bound_ns"] = simulation.lower_bound->count();
    }
    if (on_cluster) {
        facts["cluster"] = {{"layout", on_cluster->layout},           {"pipeline_ns", on_cluster->pipeline.count()},
                            {"step_ns", on_cluster->whole.count()},   {"batch", on_cluster->batch},
                            {"model_flops", on_cluster->model_flops}, {"lane_devices", on_cluster->lane_devices},
                            {"checkpoint", on_cluster->checkpoint},   {"optimizer", on_cluster->optimizer}};
    }
    if (!facts.empty()) {
        writer.set_run(kSimulationKey, facts.dump());
    }
    if (const auto graph = pipeline_graph_of(profile, simulation.options)) {
        writer.set_run("pipeline", pipeline_json(*graph));
    }
    writer.set_lanes(simulation.timeline.lanes);
    writer.set_profile(to_json(profile));
    writer.add_timeline(simulation.timeline);
    for (const MemorySample& sample : simulation.memory) {
        writer.add_memory(sample);
    }
    writer.close();
}
}  // namespace pipescope
