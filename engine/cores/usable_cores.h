#pragma once

#include <vector>

namespace pipescope {
/// The cores that the calling thread may use (sched_setaffinity, taskset, cpusets), by the system's numbers, ascending;
/// never empty.
std::vector<int> usable_core_numbers();
inline int usable_cores() {
    return static_cast<int>(usable_core_numbers().size());
}
}  // namespace pipescope
