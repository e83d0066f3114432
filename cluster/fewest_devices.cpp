#include "cluster/fewest_devices.h"

#include "cluster/layout_numbers.h"
#include "cluster/step_bounds.h"
#include "schedule/error.h"
#include "schedule/stop_check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace pipescope {
namespace {
/// The layout's step, if its numbers divide each other and it fits.
std::optional<LayoutStep> fitting_step(const LanguageModel& model, const Cluster& cluster, const Layout& layout,
                                       const PipelineParts& parts) {
    constexpr std::int64_t kMostTasks = 1 << 18;  // of a pipeline that is simulated in less than a second
    try {
        check_layout(model, layout, parts);
    } catch (const UsageError&) {
        return std::nullopt;
    }
    if (layout.micro_batches() * layout.pipeline > kMostTasks || sure_shortfall(model, layout, parts)) {
        return std::nullopt;
    }
    LayoutStep step =
        simulate_layout(model, cluster, parts, layout, {.noise = false, .memory = true, .memory_over_time = false});
    return step.simulation.feasible ? std::optional(std::move(step)) : std::nullopt;
}

/// The first layout on that many devices of the group that fits.
std::optional<LayoutStep> fitting_layout(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                                         Layout layout, int devices) {
    for (const int pipeline : divisors(devices, model.layers)) {
        for (const int tensor : divisors(devices / pipeline, group.devices_per_node)) {
            for (const int context : contexts_of(model, devices / pipeline / tensor)) {
                check_stop();
                layout.pipeline = pipeline;
                layout.tensor = tensor;
                layout.context = context;
                layout.data = devices / pipeline / tensor / context;
                layout.sequence_parallel = tensor > 1;
                layout.expert =
                    static_cast<int>(std::gcd(std::max<std::int64_t>(1, model.experts), layout.stage_devices()));
                layout.dispatch = layout.expert > 1 ? layout.dispatch : TokenDispatch::expert;
                if (std::optional<LayoutStep> step =
                        fitting_step(model, cluster, layout, PipelineParts{{&group, pipeline}})) {
                    return step;
                }
            }
        }
    }
    return std::nullopt;
}
}  // namespace

std::optional<LayoutStep> fewest_devices(const LanguageModel& model, const Cluster& cluster, const Layout& like,
                                         int above) {
    constexpr std::int64_t kMostTimes = 64;
    constexpr std::int64_t kMostDevices = 1 << 20;
    const auto most = static_cast<int>(std::min(kMostDevices, kMostTimes * above));
    std::optional<LayoutStep> fewest;
    for (std::size_t k = 0; k < cluster.groups.size(); ++k) {
        if (!cluster.groups[k].device.flops_per_second.contains(like.dtype)) {
            continue;
        }
        Cluster larger = cluster;
        NodeGroup& group = larger.groups[k];
        Layout layout = like;
        layout.recompute = Recompute::full;
        layout.zero = 3;
        layout.micro_batch_size = 1;
        for (const int devices : device_numbers(above + 1, most, true)) {
            if (fewest && fewest->layout.devices() <= devices) {
                break;
            }
            group.nodes = (devices + group.devices_per_node - 1) / group.devices_per_node;
            if (std::optional<LayoutStep> step = fitting_layout(model, larger, group, layout, devices)) {
                fewest = std::move(step);
                break;
            }
        }
    }
    return fewest;
}
}  // namespace pipescope
