#pragma once

#include "base/ids.h"
#include "simulator/simulation.h"

#include <vector>

namespace pipescope {
/// The highest peak of any lane.
Bytes highest_peak(const Simulation& simulation);
/// A lane whose peak exceeds its memory limit.
struct Shortfall {
    LaneId lane;
    Bytes peak = 0;
    Bytes limit = 0;

    Bytes bytes() const { return peak - limit; }
};
/// All lanes that exceed their limits, the worst first. Empty if all keep theirs, or if the options have no limit.
std::vector<Shortfall> shortfalls(const Simulation& simulation);
/// The most bytes by which any lane exceeds its limit; negative if all keep theirs. Precondition: the options have a
/// limit.
Bytes largest_shortfall(const Simulation& simulation);
}  // namespace pipescope
