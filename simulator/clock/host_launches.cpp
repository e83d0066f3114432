#include "simulator/clock/host_launches.h"

#include "schedule/schedules.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "simulator/sized_profile.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// One layer's pass, or several in a row, on a device of any speed.
///
/// As a function of the device's speed, `paced` is convex: from the time of the launches on an infinitely fast device,
/// which `host_ns` stands for, to the recorded one. The line between them is close, and exact for equal kernels.
struct Launched {
    double device_ns = 0;
    LaunchTimes times;
};

/// The second follows the first, on host and device.
Launched operator+(const Launched& first, const Launched& second) {
    return {first.device_ns + second.device_ns,
            {first.times.host_ns + second.times.host_ns,
             std::max(first.times.paced_ns + second.device_ns, first.times.host_ns + second.times.paced_ns),
             first.times.host_ns + second.times.sends_ns, first.times.receives_ns}};
}

Launched half(const Launched& whole) {
    return {whole.device_ns / 2,
            {whole.times.host_ns / 2, whole.times.paced_ns / 2, whole.times.sends_ns / 2, whole.times.receives_ns}};
}

/// How each partition's tasks are launched.
class PartitionLaunches {
public:
    PartitionLaunches(const Profile& profile, const PipelineOptions& options)
        : profile_(profile), options_(options), sized_(at_size(profile, micro_batch_sizes(options).front())) {}

    const LaunchTimes& of(TaskKind kind, std::int32_t partition) {
        const auto [found, fresh] = known_.try_emplace({kind, partition});
        if (fresh) {
            found->second = sum_of(kind, partition);
        }
        return found->second;
    }

private:
    LaunchTimes sum_of(TaskKind kind, std::int32_t partition) const {
        const LayerRange layers = options_.balance.layers_of(PartitionId{partition});
        const double speed = speed_of(options_.hardware, lane_of(options_.placement, PartitionId{partition}));
        const bool is_forward = kind == TaskKind::forward || kind == TaskKind::recompute;
        std::optional<Launched> sum;
        for (std::size_t k = 0; k < layers.size(); ++k) {
            const std::size_t layer = is_forward ? layers.first.index() + k : layers.end.index() - 1 - k;
            const Launched next = of_layer(kind, layer, speed);
            sum = sum ? *sum + next : next;
        }
        return sum ? sum->times : LaunchTimes{};
    }

    Launched of_layer(TaskKind kind, std::size_t layer, double speed) const {
        const LayerProfile& costs = profile_.layers[layer];
        const auto recorded = [](const PerSize& ns) { return ns.empty() ? 0 : ns.front(); };
        const auto pass = [&](const char* name, double ns, double recorded_ns) {
            const auto found = costs.launches.find(name);
            Launched made{ns / speed, found == costs.launches.end() ? LaunchTimes{} : found->second};
            const double scale = recorded_ns > 0 ? made.device_ns / recorded_ns : 1;
            double& paced = made.times.paced_ns;
            paced = std::max(made.device_ns, made.times.host_ns + scale * (paced - made.times.host_ns));
            return made;
        };
        if (kind == TaskKind::forward) {
            return pass("forward", sized_.kept_forward[layer], recorded(costs.forward_ns));
        }
        if (kind == TaskKind::recompute) {
            const bool is_known = costs.launches.contains("recompute");
            return is_known ? pass("recompute", sized_.recompute[layer], recorded(costs.recompute_ns))
                            : pass("forward", sized_.recompute[layer], recorded(costs.forward_ns));
        }
        const bool splits = splits_backward(options_.schedule);
        const double whole = sized_.backward[layer];
        if (!costs.launches.contains("backward_weight")) {
            const Launched backward = pass("backward", whole, recorded(costs.backward_ns));
            return splits ? half(backward) : backward;
        }
        const double weights = sized_.backward_weight[layer];
        const double recorded_weights = recorded(costs.backward_weight_ns);
        const Launched first = pass("backward", whole - weights, recorded(costs.backward_ns) - recorded_weights);
        const Launched second = pass("backward_weight", weights, recorded_weights);
        return !splits ? first + second : kind == TaskKind::backward ? first : second;
    }

    const Profile& profile_;
    const PipelineOptions& options_;
    SizedProfile sized_;
    std::map<std::pair<TaskKind, std::int32_t>, LaunchTimes> known_;
};
}  // namespace

namespace {
/// When hosts launch if those of the lanes begin then.
HostLaunches launches_from(std::span<const double> begins, const PipelineOptions& options, const TaskGraph& graph,
                           PartitionLaunches& partitions) {
    const std::size_t count = graph.tasks().size();
    HostLaunches launches{std::vector<double>(count), std::vector<double>(count)};
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        double now = begins[static_cast<std::size_t>(lane)];
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            const TaskKey& key = graph.tasks()[task].key;
            launches.launched[task] = now;
            if (is_compute(key.kind)) {
                const LaunchTimes& times = partitions.of(key.kind, key.partition);
                launches.paced[task] = times.paced_ns;
                now += times.host_ns;
            }
        }
    }
    for (TaskIndex copy = 0; copy < count; ++copy) {
        const Task& task = graph.tasks()[copy];
        if (!is_copy(task.key.kind) || share_device(options.hardware, task.lane, task.receiver, graph.num_lanes())) {
            continue;
        }
        const auto launch_by = [&](TaskIndex other, double LaunchTimes::*offset, double sign) {
            const TaskKey& key = graph.tasks()[other].key;
            if (is_compute(key.kind)) {
                const double time = launches.launched[other] + sign * partitions.of(key.kind, key.partition).*offset;
                launches.launched[copy] = std::max(launches.launched[copy], time);
            }
        };
        for (const TaskIndex sender : graph.dependencies(copy)) {
            launch_by(sender, &LaunchTimes::sends_ns, 1);
        }
        for (const TaskIndex receiver : graph.dependents(copy)) {
            launch_by(receiver, &LaunchTimes::receives_ns, -1);
        }
    }
    for (std::size_t task = 0; task < count; ++task) {
        if (const double early = std::min(launches.launched[task], 0.0); early < 0) {  // before the step
            launches.launched[task] = 0;
            launches.paced[task] += early;
        }
    }
    return launches;
}

/// When each lane has done its work, if nothing is shared.
std::vector<double> ends_of_lanes(const HostLaunches& launches, std::span<const double> durations,
                                  const TaskGraph& graph, const TaskClock& clock) {
    std::vector<double> released(durations.size());
    std::vector<double> ends(durations.size());
    for (std::size_t task = 0; task < released.size(); ++task) {
        released[task] = launches.launched[task] + std::max(0.0, launches.paced[task] - durations[task]);
    }
    clock.run(durations, ends, released);
    std::vector<double> lanes(static_cast<std::size_t>(graph.num_lanes()));
    for (std::size_t task = 0; task < ends.size(); ++task) {
        const Task& each = graph.tasks()[task];
        if (is_compute(each.key.kind)) {
            lanes[each.lane.index()] = std::max(lanes[each.lane.index()], ends[task]);
        }
    }
    return lanes;
}
}  // namespace

std::optional<HostLaunches> host_launches(const Profile& profile, const PipelineOptions& options,
                                          const TaskGraph& graph) {
    const bool waits_for_sends = std::ranges::any_of(graph.tasks(), [&](const Task& task) {
        return is_copy(task.key.kind) &&
               link_between(options.hardware, task.lane, task.receiver).sends != Sends::overlapped;
    });
    if (!has_launches(profile) || options.most_in_flight > 0 || waits_for_sends || graph.shape().bidirectional) {
        return std::nullopt;
    }
    PartitionLaunches partitions(profile, options);
    const auto micro_batches = static_cast<int>(micro_batch_sizes(options).size());
    const TaskCosts costs(profile, options, std::max(1, graph.shape().num_micro_batches / micro_batches));
    std::vector<double> durations;
    for (const Task& task : graph.tasks()) {
        durations.push_back(static_cast<double>(costs.duration(task)));
    }
    const TaskClock clock(graph, message_turns(options, graph));
    const std::size_t first = graph.shape().lane_of(PartitionId{0}).index();
    constexpr int kSteps = 4;  // until the lanes' ends settle
    std::vector<double> begins(static_cast<std::size_t>(graph.num_lanes()));
    for (int step = 1; step < kSteps; ++step) {
        const HostLaunches launches = launches_from(begins, options, graph, partitions);
        const std::vector<double> ends = ends_of_lanes(launches, durations, graph, clock);
        std::ranges::transform(ends, begins.begin(), [&](double end) { return end - ends[first]; });
    }
    return launches_from(begins, options, graph, partitions);
}
}  // namespace pipescope
