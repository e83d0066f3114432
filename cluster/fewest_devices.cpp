#include "cluster/fewest_devices.h"

#include "base/error.h"
#include "base/stop_check.h"
#include "cluster/layout_numbers.h"
#include "cluster/step_bounds.h"

#include <algorithm>
#include <cstdint>

namespace pipescope {
namespace {
/// The layout's step, if its numbers divide each other and it fits.
std::optional<LayoutStep> fitting_step(const LanguageModel& model, const Cluster& cluster, const Layout& layout,
                                       const PipelineParts& parts) {
    constexpr std::int64_t kMostTasks = 1 << 18;  // for a pipeline that is simulated in less than a second
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
}  // namespace

std::optional<LayoutStep> first_that_fits(const LanguageModel& model, const Cluster& cluster,
                                          const PlacedLayouts& layouts) {
    for (const auto& [layout, parts] : layouts) {
        check_stop();
        if (std::optional<LayoutStep> step = fitting_step(model, cluster, layout, parts)) {
            return step;
        }
    }
    return std::nullopt;
}

std::optional<LayoutStep> fewest_devices(const LanguageModel& model, const Cluster& cluster,
                                         const LayoutsOn& layouts_on, int above) {
    constexpr std::int64_t kMostTimes = 64;
    constexpr std::int64_t kMostDevices = 1 << 20;
    const auto most = static_cast<int>(std::min(kMostDevices, kMostTimes * above));
    std::optional<LayoutStep> fewest;
    for (std::size_t k = 0; k < cluster.groups.size(); ++k) {
        Cluster larger = cluster;
        NodeGroup& group = larger.groups[k];
        for (const int devices : device_numbers(above + 1, most, true)) {
            if (fewest && fewest->layout.devices() <= devices) {
                break;
            }
            group.nodes = (devices + group.devices_per_node - 1) / group.devices_per_node;
            if (std::optional<LayoutStep> step = first_that_fits(model, larger, layouts_on(group, devices))) {
                fewest = std::move(step);
                break;
            }
        }
    }
    return fewest;
}
}  // namespace pipescope
