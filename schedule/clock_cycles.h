#pragma once

#include "schedule/task_graph.h"

#include <vector>

namespace pipescope {
/// The paper's deterministic clock-cycle: cycle k runs every (i, j) with i + j = k, partitions ascending.
///
///     k       0      1      2      3      4        m = 3, n = 3
///     j = 0 (0,0)  (1,0)  (2,0)
///     j = 1        (0,1)  (1,1)  (2,1)
///     j = 2               (0,2)  (1,2)  (2,2)
///
/// Source: torchgpipe (arXiv 2004.09910), section 3.2.1, algorithm 1.
std::vector<std::vector<Cell>> clock_cycles(int m, int n);
}  // namespace pipescope
