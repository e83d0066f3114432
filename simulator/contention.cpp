#include "simulator/contention.h"
#include <algorithm>
#include <map>
#include <string>
namespace pipescope {
namespace {
/// Computes v(k) of contention.h.
double absolute_speed(const PerLane& slowdown, int busy, int capacity) {
    const auto measured = static_cast<int>(slowdown.size());
    if (busy <= measured) {
        return slowdown.front() / slowdown[static_cast<std::size_t>(busy) - 1];
    }
    const double base = slowdown.empty() ? 1 : slowdown.front() / slowdown.back();
    const int shared = std::max({measured, capacity, 1});
    return busy <= shared ? base : base * shared / busy;
}
int lanes_on(const PipelineOptions& options, const std::string& device) {
    int count = 0;
    for (int lane = 0; lane < num_lanes(options); ++lane) {
        count += device_of(options.hardware, LaneId{lane}) == device ? 1 : 0;
    }
    return count;
}
int capacity_of(const PipelineOptions& options, const std::string& device) {
    if (device != kHost) {
        return 1;
    }
    return options.hardware.host_cores > 0 ? options.hardware.host_cores : lanes_on(options, device);
}

/// The most lanes that work on a device at once.
int most_at_work(const PipelineOptions& options, const std::string& device) {
    const int lanes = lanes_on(options, device);
    return device == kHost ? std::min(lanes, capacity_of(options, device)) : lanes;
}

bool waits(const SharedResources& resources) {
    std::vector<std::size_t> lanes(resources.speeds.size());
    for (const std::size_t server : resources.server_of_lane) {
        if (++lanes[server] > resources.speeds[server].size()) {
            return true;
        }
    }
    return false;
}

bool is_alone(const SharedResources& resources) {
    return !waits(resources) && resources.launch_ns.empty() && resources.most_in_flight == 0 &&
           std::ranges::all_of(resources.speeds, [](const std::vector<double>& speeds) {
               return std::ranges::all_of(speeds, [](double speed) { return speed == 1; });
           });
}
void share_devices(const Profile& profile, const PipelineOptions& options, const TaskGraph& graph,
                   SharedResources& resources) {
    std::map<std::string, std::size_t> server_of_device;
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        const std::string device = device_of(options.hardware, LaneId{lane});
        const auto [found, is_new] = server_of_device.emplace(device, resources.speeds.size());
        if (is_new) {
            std::vector<double>& speeds = resources.speeds.emplace_back();
            for (int busy = 1; busy <= most_at_work(options, device); ++busy) {
                speeds.push_back(co_running_speed(profile, busy, capacity_of(options, device), device == kHost));
            }
        }
        resources.server_of_lane.push_back(found->second);
    }
}
/// Copies share the link's bandwidth equally; each has the full latency to itself.
void share_links(const PipelineOptions& options, const TaskGraph& graph, SharedResources& resources) {
    std::map<std::string, std::size_t> server_of_link;
    for (std::size_t k = 0; k < graph.channels().size(); ++k) {
        const Channel& channel = graph.channels()[k];
        const std::string sender = device_of(options.hardware, channel.from);
        const bool is_free = sender == device_of(options.hardware, channel.to);
        const std::string link = is_free || options.hardware.link.sharing == LinkSharing::none
                                     ? "channel " + std::to_string(k)
                                 : options.hardware.link.sharing == LinkSharing::sender ? "port of " + sender
                                                                                        : "bus";
        const auto [found, is_new] = server_of_link.emplace(link, resources.speeds.size());
        if (is_new) {
            resources.speeds.emplace_back();
        }
        std::vector<double>& speeds = resources.speeds[found->second];
        speeds.push_back(1.0 / static_cast<double>(speeds.size() + 1));
        resources.server_of_channel.push_back(found->second);
    }
}
/// One process launches everything. Lanes on the host launch nothing: their layers' times already include it.
void launch_tasks(const Profile& profile, const PipelineOptions& options, const TaskGraph& graph,
                  SharedResources& resources) {
    if (!(profile.launch_ns > 0)) {
        return;
    }
    bool launches = false;
    for (const Task& task : graph.tasks()) {
        const bool on_host = runs_on_host(options.hardware, task.lane);
        const std::size_t layers =
            is_compute(task.key.kind) ? options.balance.layers_of(PartitionId{task.key.partition}).size() : 1;
        const bool is_free = is_copy(task.key.kind) &&
                             device_of(options.hardware, task.lane) == device_of(options.hardware, task.receiver);
        resources.launch_ns.push_back(on_host || is_free ? 0 : profile.launch_ns * static_cast<double>(layers));
        launches = launches || !on_host;
    }
    if (!launches) {
        resources.launch_ns.clear();
    }
    resources.process_of_lane.assign(static_cast<std::size_t>(graph.num_lanes()), 0);
}
}  // namespace

double co_running_speed(const Profile& profile, int busy, int capacity, bool on_host) {
    const bool is_profiled_kind = on_host == (profile.device == kHost);
    const PerLane slowdown = is_profiled_kind ? profile.co_running_slowdown : PerLane{};
    const int profiled = is_profiled_kind ? profile.co_running_lanes : 1;
    const int profiled_capacity = profile.host_cores > 0 && on_host ? profile.host_cores : profiled;
    return absolute_speed(slowdown, busy, capacity) / absolute_speed(slowdown, profiled, profiled_capacity);
}

std::optional<SharedResources> shared_resources(const Profile& profile, const PipelineOptions& options,
                                                const TaskGraph& graph) {
    SharedResources resources;
    share_devices(profile, options, graph, resources);
    share_links(options, graph, resources);
    resources.link_latency_ns = options.hardware.link.startup_ns();
    launch_tasks(profile, options, graph, resources);
    resources.most_in_flight = options.most_in_flight;
    return is_alone(resources) ? std::nullopt : std::optional(std::move(resources));
}
std::optional<CoresInTurn> cores_in_turn(const PipelineOptions& options) {
    CoresInTurn turns{most_at_work(options, kHost), {}};
    if (turns.cores == lanes_on(options, kHost)) {
        return std::nullopt;
    }
    for (int lane = 0; lane < num_lanes(options); ++lane) {
        turns.takes_turns.push_back(runs_on_host(options.hardware, LaneId{lane}));
    }
    return turns;
}

double speed_alone(const Profile& profile, const PipelineOptions& options, LaneId lane) {
    const std::string device = device_of(options.hardware, lane);
    return co_running_speed(profile, 1, capacity_of(options, device), device == kHost);
}
}  // namespace pipescope
