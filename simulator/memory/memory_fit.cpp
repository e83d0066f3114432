#include "simulator/memory/memory_fit.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>

namespace pipescope {
Bytes highest_peak(const Simulation& simulation) {
    Bytes most = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        most = std::max(most, lane.peak_bytes);
    }
    return most;
}

std::vector<Shortfall> shortfalls(const Simulation& simulation) {
    const std::vector<Bytes> limits =
        memory_limits_of(simulation.options.hardware, static_cast<int>(simulation.lanes.size()));
    std::vector<Shortfall> found;
    for (std::size_t lane = 0; lane < limits.size(); ++lane) {
        if (const Bytes peak = simulation.lanes[lane].peak_bytes; peak > limits[lane]) {
            found.push_back({LaneId{lane}, peak, limits[lane]});
        }
    }
    std::ranges::stable_sort(found, std::ranges::greater(), &Shortfall::bytes);
    return found;
}

Bytes largest_shortfall(const Simulation& simulation) {
    const std::vector<Bytes> limits =
        memory_limits_of(simulation.options.hardware, static_cast<int>(simulation.lanes.size()));
    Bytes most = std::numeric_limits<Bytes>::min();
    for (std::size_t lane = 0; lane < limits.size(); ++lane) {
        most = std::max(most, simulation.lanes[lane].peak_bytes - limits[lane]);
    }
    return most;
}
}  // namespace pipescope
