#include "simulator/clock/virtual_clock.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace pipescope {
VirtualClock::VirtualClock(const TaskGraph& graph, std::optional<SharedResources> shared) : clock_(graph) {
    if (shared) {
        engine_.emplace(graph, *std::move(shared));
    }
}

void VirtualClock::run(std::span<const double> durations, std::span<double> starts, std::span<double> ends) {
    if (engine_) {
        engine_->run(durations, starts, ends);
        return;
    }
    clock_.run(durations, ends);
    std::transform(ends.begin(), ends.end(), durations.begin(), starts.begin(), std::minus<>());
}
}  // namespace pipescope
