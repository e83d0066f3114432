#include "engine/cores/usable_cores.h"

#include <sched.h>

namespace pipescope {
std::vector<int> usable_core_numbers() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        for (int core = 0; core < CPU_SETSIZE; ++core) {
            if (CPU_ISSET(core, &set)) {
                cores.push_back(core);
            }
        }
    }
    return cores.empty() ? std::vector<int>{0} : cores;
}
}  // namespace pipescope
