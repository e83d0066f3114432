#include "simulator/clock/contention.h"
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
namespace pipescope {
namespace {
constexpr const char* kPorts = "ports";  // the server of all copies between hosts

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
/// Lanes that share a device with this one, itself included.
int lanes_beside(const PipelineOptions& options, LaneId lane) {
    const int lanes = num_lanes(options);
    int count = 0;
    for (int other = 0; other < lanes; ++other) {
        count += share_device(options.hardware, lane, LaneId{other}, lanes) ? 1 : 0;
    }
    return count;
}
int capacity_at(const PipelineOptions& options, LaneId lane) {
    if (!runs_on_host(options.hardware, lane)) {
        return 1;
    }
    return options.hardware.host_cores > 0 ? options.hardware.host_cores : lanes_beside(options, lane);
}

/// The most lanes that work on the lane's device at once.
int most_at_work(const PipelineOptions& options, LaneId lane) {
    const int lanes = lanes_beside(options, lane);
    return runs_on_host(options.hardware, lane) ? std::min(lanes, capacity_at(options, lane)) : lanes;
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
           std::ranges::none_of(resources.is_received_late, std::identity()) &&
           std::ranges::all_of(resources.speeds, [](const std::vector<double>& speeds) {
               return std::ranges::all_of(speeds, [](double speed) { return speed == 1; });
           });
}
void share_devices(const Profile& profile, const PipelineOptions& options, const TaskGraph& graph,
                   SharedResources& resources) {
    std::map<std::pair<int, std::string>, std::size_t> server_of_device;
    for (int k = 0; k < graph.num_lanes(); ++k) {
        const LaneId lane{k};
        const std::pair device(process_of(options.hardware, lane, graph.num_lanes()),
                               device_of(options.hardware, lane));
        const auto [found, is_new] = server_of_device.emplace(device, resources.speeds.size());
        if (is_new) {
            resources.speeds.push_back(speeds_when_busy(profile, options, lane));
        }
        resources.server_of_lane.push_back(found->second);
    }
}
/// The host of a lane, for LinkSharing::host: its process, or its device if there is one process.
std::string host_of(const PipelineOptions& options, LaneId lane, int lanes) {
    return options.hardware.processes > 1 ? "process " + std::to_string(process_of(options.hardware, lane, lanes))
                                          : device_of(options.hardware, lane);
}

/// The server of a channel's copies; channels of one name share it.
std::string link_of(const PipelineOptions& options, const Channel& channel, std::size_t number, int lanes) {
    const std::string own = "channel " + std::to_string(number);
    if (share_device(options.hardware, channel.from, channel.to, lanes)) {
        return own;
    }
    switch (options.hardware.link.sharing) {
        case LinkSharing::none: return own;
        case LinkSharing::sender:
            return "port of " + device_of(options.hardware, channel.from) + " of process " +
                   std::to_string(process_of(options.hardware, channel.from, lanes));
        case LinkSharing::host:
            return host_of(options, channel.from, lanes) == host_of(options, channel.to, lanes) ? own : kPorts;
        case LinkSharing::all: return "bus";
    }
    return own;
}

/// Copies share the link's bandwidth; each has the full latency to itself.
void share_links(const PipelineOptions& options, const TaskGraph& graph, SharedResources& resources) {
    std::map<std::string, std::size_t> server_of_link;
    std::map<std::string, std::size_t> hosts;
    const auto port_of = [&](LaneId lane) {
        return hosts.emplace(host_of(options, lane, graph.num_lanes()), hosts.size()).first->second;
    };
    for (std::size_t k = 0; k < graph.channels().size(); ++k) {
        const Channel& channel = graph.channels()[k];
        const auto [found, is_new] =
            server_of_link.emplace(link_of(options, channel, k, graph.num_lanes()), resources.speeds.size());
        if (is_new) {
            resources.speeds.emplace_back();
        }
        std::vector<double>& speeds = resources.speeds[found->second];
        speeds.push_back(1.0 / static_cast<double>(speeds.size() + 1));
        resources.server_of_channel.push_back(found->second);
        resources.is_received_late.push_back(
            options.hardware.link.protocol == LinkProtocol::blocking && !options.hardware.link.is_free() &&
            !share_device(options.hardware, channel.from, channel.to, graph.num_lanes()));
        resources.route_of_channel.push_back({port_of(channel.from), port_of(channel.to)});
    }
    if (const auto ports = server_of_link.find(kPorts); ports != server_of_link.end()) {
        resources.ports = ports->second;
    }
}
/// Each process launches what its lanes do. Lanes on the host launch nothing: their layers' times already include it.
void launch_tasks(const Profile& profile, const PipelineOptions& options, const TaskGraph& graph,
                  SharedResources& resources) {
    if (!(profile.launch_ns > 0) || has_launches(profile)) {
        return;
    }
    bool launches = false;
    for (const Task& task : graph.tasks()) {
        const bool on_host = runs_on_host(options.hardware, task.lane);
        const std::size_t layers =
            is_compute(task.key.kind) ? options.balance.layers_of(PartitionId{task.key.partition}).size() : 1;
        const bool is_free =
            is_copy(task.key.kind) && share_device(options.hardware, task.lane, task.receiver, graph.num_lanes());
        resources.launch_ns.push_back(on_host || is_free ? 0 : profile.launch_ns * static_cast<double>(layers));
        launches = launches || !on_host;
    }
    if (!launches) {
        resources.launch_ns.clear();
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        const int process = process_of(options.hardware, LaneId{lane}, graph.num_lanes());
        resources.process_of_lane.push_back(static_cast<std::size_t>(process));
    }
}
}  // namespace

double co_running_speed(const Profile& profile, int busy, int capacity, bool on_host) {
    const bool is_profiled_kind = on_host == (profile.device == kHost);
    return absolute_speed(is_profiled_kind ? profile.co_running_slowdown : PerLane{}, busy, capacity);
}

double speed_alone(const Profile& profile) {
    const int profiled = profile.co_running_lanes;
    const int capacity = profile.host_cores > 0 && profile.device == kHost ? profile.host_cores : profiled;
    return 1 / absolute_speed(profile.co_running_slowdown, profiled, capacity);
}

Profile with_times_alone(Profile profile) {
    const double alone = speed_alone(profile);
    const auto take_back = [alone](PerSize& times) {
        for (double& ns : times) {
            ns /= alone;
        }
    };
    for (LayerProfile& layer : profile.layers) {
        for (PerSize* times : {&layer.forward_ns, &layer.recompute_ns, &layer.graph_forward_ns, &layer.backward_ns,
                               &layer.backward_weight_ns}) {
            take_back(*times);
        }
    }
    take_back(profile.loss_ns);
    take_back(profile.loss_batch.ns);
    profile.optimizer_ns /= alone;
    profile.co_running_lanes = 1;
    profile.co_running_slowdown.clear();
    return profile;
}

double loss_time_alone(const Profile& profile, std::int64_t samples) {
    return loss_time(profile, static_cast<double>(samples)).value / speed_alone(profile);
}

std::vector<double> speeds_when_busy(const Profile& profile, const PipelineOptions& options, LaneId lane) {
    std::vector<double> speeds;
    const int most = most_at_work(options, lane);
    const int capacity = capacity_at(options, lane);
    for (int busy = 1; busy <= most; ++busy) {
        speeds.push_back(co_running_speed(profile, busy, capacity, runs_on_host(options.hardware, lane)));
    }
    return speeds;
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
    const int lanes = num_lanes(options);
    CoresInTurn turns;
    int on_host = 0;
    std::set<int> processes;
    for (int k = 0; k < lanes; ++k) {
        const LaneId lane{k};
        turns.takes_turns.push_back(runs_on_host(options.hardware, lane));
        if (turns.takes_turns.back()) {
            ++on_host;
            const bool is_first = processes.insert(process_of(options.hardware, lane, lanes)).second;
            turns.cores += is_first ? most_at_work(options, lane) : 0;
        }
    }
    return turns.cores == on_host ? std::nullopt : std::optional(std::move(turns));
}
}  // namespace pipescope
