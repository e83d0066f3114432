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

/// GPipe's fill-drain schedule: all forwards by clock-cycle, the loss, then all backwards. The backward phase starts
/// with the last micro-batch, or with the first if the shape says so. A checkpointed micro-batch is recomputed right
/// before its backward.
/// Throws UsageError if the shape is invalid. Source: GPipe, section 2.3; torchgpipe, section 3.2.
TaskGraph gpipe_schedule(const PipelineShape& shape);

/// With replicas, appends an all-reduce of each partition's gradients to its lane's program. The last partition comes
/// first, because its backward ends first.
void add_all_reduces(const PipelineShape& shape, std::vector<LaneProgram>& programs);
}  // namespace pipescope
