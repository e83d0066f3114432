#pragma once

#include "schedule/task_graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A schedule as data: a row per lane, a column per slot of time, and in each cell what the lane runs then.
///
/// As a file it is the compute-only CSV of torch.distributed.pipelining, in which the schedules there can be dumped and
/// loaded. A cell is empty or `<partition><kind><micro-batch>`, such as 3F0:
///
///     F  forward                B  backward
///     I  backward of the input  W  backward of the weights
///     R  recompute              L  loss of a micro-batch
///
/// `(0F1;1B0)OVERLAP_F_B` holds two tasks, which run in that order. R and L are PipeScope's own and optional: without
/// them a recompute runs right before its backward, and a loss right after the last partition's forward.
///
///     0F0,0F1,,0B0,0B1
///     ,1F0,1B0,1F1,1B1
///
/// Source: torch.distributed.pipelining.schedules, _dump_csv and _Action (PyTorch 2.9).
struct ScheduleTable {
    /// What one cell holds: nothing, a task, or two that torch overlaps. A backward of both input and weights is
    /// TaskKind::backward alone; its halves are TaskKind::backward with `input_only`, and TaskKind::backward_weight.
    struct Action {
        TaskKey task;  ///< step 0
        bool input_only = false;

        friend bool operator==(const Action&, const Action&) = default;
    };
    using Cell = std::vector<Action>;

    std::vector<std::vector<Cell>> rows;  ///< by lane; rows may differ in length
    std::string line_end = "\r\n";        ///< as Python's csv module writes it

    friend bool operator==(const ScheduleTable&, const ScheduleTable&) = default;
};

/// Reads the CSV. Throws UsageError that names row and column, counted from 1, of a cell that is no task. What the
/// cells say together is checked by table_shape().
ScheduleTable parse_schedule_csv(std::string_view text);
/// The CSV again: the same bytes as were read, if they end with a line end.
std::string to_csv(const ScheduleTable& table);

/// The schedule of a graph, drawn as if every task took one slot and copies none. Recompute and loss are left out.
ScheduleTable schedule_table(const TaskGraph& graph);

/// What the table fixes of a pipeline: partitions, micro-batches, placement, the loss of each micro-batch; the rest is
/// as in `base`. Throws UsageError unless each partition has one lane and each micro-batch runs forward and backward
/// once on each partition, forward first; the message names rows and columns.
PipelineShape table_shape(const ScheduleTable& table, const PipelineShape& base = {});
/// The table's task graph. Throws as table_shape() does, and UsageError if recomputes do not fit base.checkpoint; Error
/// that tells the circle of waits if lanes wait for each other for ever.
TaskGraph table_graph(const ScheduleTable& table, const PipelineShape& base = {});
/// True if any cell is I or W.
bool splits_backward(const ScheduleTable& table);
}  // namespace pipescope
