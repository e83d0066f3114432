#include "simulator/clock/virtual_clock.h"

#include "base/error.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace pipescope {
VirtualClock::VirtualClock(const TaskGraph& graph, std::optional<SharedResources> shared,
                           std::optional<HostLaunches> hosts, const MessageTurns& turns)
    : clock_(graph, turns), hosts_(std::move(hosts)) {
    if (shared && !turns.order.empty()) {
        throw UsageError(
            "the link protocol is in-turn while lanes share devices, links or a launching host; only messages of lanes "
            "that share nothing can take turns; leave one or the other out");
    }
    if (shared) {
        shared->has_releases = hosts_.has_value();
        engine_.emplace(graph, *std::move(shared));
    }
    if (hosts_) {
        released_.resize(num_tasks());
    }
}

void VirtualClock::run(std::span<const double> durations, std::span<double> starts, std::span<double> ends) {
    for (std::size_t task = 0; task < released_.size(); ++task) {
        released_[task] = hosts_->launched[task] + std::max(0.0, hosts_->paced[task] - durations[task]);
    }
    if (engine_) {
        engine_->run(durations, starts, ends, released_);
    } else {
        clock_.run(durations, ends, released_);
        std::transform(ends.begin(), ends.end(), durations.begin(), starts.begin(), std::minus<>());
    }
    for (std::size_t task = 0; task < released_.size(); ++task) {  // a task waits for launches within its time
        const double ready = clock_.ready(task, std::span<const double>(ends), hosts_->launched[task]);
        starts[task] = std::min(starts[task], ready);
    }
}
}  // namespace pipescope
