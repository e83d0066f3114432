// GPipe's fill-drain schedule: all forwards by clock-cycle, the loss, then all backwards. The backward phase starts
// with the last micro-batch, or with the first if the shape says so. A checkpointed micro-batch is recomputed right
// before its backward. m = 3, n = 3, without checkpointing (' marks backward):
//
//     lane 0   0  1  2  .  .  .  .  2' 1' 0'
//     lane 1   .  0  1  2  .  .  2' 1' 0' .
//     lane 2   .  .  0  1  2  2' 1' 0' .  .
//
// Looped BFS (breadth-first): the same with several partitions per lane, dealt out in turn. A lane runs all
// micro-batches through its first partition, then through its next one, and backward in reverse. Two lanes, m = 3 (a is
// the first partition of a lane, b the second):
//
//     lane 0   a0 a1 a2 b0 b1 b2 .   .   b2' b1' b0' a2' a1' a0'
//     lane 1   .  a0 a1 a2 b0 b1 b2  b2' b1' b0' a2' a1' a0' .
//
// Source: GPipe (arXiv 1811.06965), section 2.3; torchgpipe (arXiv 2004.09910), section 3.2; Breadth-First Pipeline
// Parallelism (arXiv 2211.05953), section 4; the order of looped BFS is that of torch.distributed.pipelining.

#include "schedule/clock_cycles.h"

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"

#include <algorithm>

namespace pipescope {
LanePrograms gpipe_programs(const PipelineShape& shape) {
    const int m = shape.num_micro_batches;
    const int n = shape.num_partitions;
    LanePlans plans(shape);
    const auto cycles = clock_cycles(m, n);
    for (const auto& cycle : cycles) {
        for (const Cell& cell : cycle) {
            plans.of(cell.j).add(TaskKind::forward, cell);
        }
    }
    plans.of(PartitionId{n - 1}).add(TaskKind::loss, {MicroBatchId{-1}, PartitionId{n - 1}});
    // The backward phase reverses the forward phase. first_first also renumbers the micro-batches.
    for (auto cycle = cycles.rbegin(); cycle != cycles.rend(); ++cycle) {
        for (auto cell = cycle->rbegin(); cell != cycle->rend(); ++cell) {
            const bool renumbers = shape.backward_order == BackwardOrder::first_first;
            plans.of(cell->j).backward({renumbers ? MicroBatchId{m - 1 - cell->i.value()} : cell->i, cell->j});
        }
    }
    return plans.take();
}

LanePrograms looped_bfs_programs(const PipelineShape& shape) {
    LanePlans plans(shape);
    for (int j = 0; j < shape.num_partitions; ++j) {
        for (int i = 0; i < shape.num_micro_batches; ++i) {
            plans.of(PartitionId{j}).forward({MicroBatchId{i}, PartitionId{j}});
        }
    }
    for (int j = shape.num_partitions; j-- > 0;) {
        for (int i = shape.num_micro_batches; i-- > 0;) {
            plans.of(PartitionId{j}).backward({MicroBatchId{i}, PartitionId{j}});
        }
    }
    return plans.take();
}
}  // namespace pipescope
