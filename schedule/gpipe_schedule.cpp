#include "schedule/gpipe_schedule.h"

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

void add_all_reduces(const PipelineShape& shape, std::vector<LaneProgram>& programs) {
    for (int j = shape.num_partitions; shape.replicas > 1 && j-- > 0;) {
        programs[shape.lane_of(PartitionId{j}).index()].push_back({0, TaskKind::all_reduce, j, -1, -1});
    }
}

TaskGraph gpipe_schedule(const PipelineShape& shape) {
    shape.check();
    const int m = shape.num_micro_batches;
    const int n = shape.num_partitions;
    std::vector<LaneProgram> programs(static_cast<std::size_t>(shape.num_lanes()));
    const auto add = [&](TaskKind kind, const Cell& cell) {
        programs[shape.lane_of(cell.j).index()].push_back({0, kind, cell.j.value(), cell.i.value(), -1});
    };
    const auto cycles = clock_cycles(m, n);
    for (const auto& cycle : cycles) {
        for (const Cell& cell : cycle) {
            add(TaskKind::forward, cell);
        }
    }
    programs[shape.lane_of(PartitionId{n - 1}).index()].push_back({0, TaskKind::loss, n - 1, -1, -1});
    // The backward phase reverses the forward phase. first_first also renumbers the micro-batches.
    for (auto cycle = cycles.rbegin(); cycle != cycles.rend(); ++cycle) {
        for (auto cell = cycle->rbegin(); cell != cycle->rend(); ++cell) {
            const bool renumbers = shape.backward_order == BackwardOrder::first_first;
            const Cell each{renumbers ? MicroBatchId{m - 1 - cell->i.value()} : cell->i, cell->j};
            if (is_checkpointed(shape.checkpoint, each.i, m)) {
                add(TaskKind::recompute, each);
            }
            add(TaskKind::backward, each);
        }
    }
    add_all_reduces(shape, programs);
    return TaskGraph(shape, programs);
}
}  // namespace pipescope
