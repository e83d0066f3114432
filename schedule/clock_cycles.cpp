#include "schedule/clock_cycles.h"

#include <algorithm>

namespace pipescope {
std::vector<std::vector<Cell>> clock_cycles(int m, int n) {
    std::vector<std::vector<Cell>> cycles;
    for (int k = 0; k < m + n - 1; ++k) {
        auto& cycle = cycles.emplace_back();
        for (int j = std::max(0, k - m + 1); j <= std::min(k, n - 1); ++j) {
            cycle.push_back({MicroBatchId{k - j}, PartitionId{j}});
        }
    }
    return cycles;
}
}  // namespace pipescope
