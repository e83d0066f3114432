#pragma once

#include "schedule/task_graph.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A schedule as a table: one row per lane, one column per time slot. A cell contains the tasks of the lane in that
/// slot.
///
/// The file format is the compute-only CSV of torch.distributed.pipelining, which dumps and loads its schedules in it.
/// A cell is empty or `<partition><kind><micro-batch>`, such as 3F0:
///
///     F  forward                B  backward
///     I  backward of the input  W  backward of the weights
///     R  recompute              L  loss of a micro-batch
///
/// 2O is the update of the parameters of partition 2's lane, without a micro-batch. It ends its row.
///
/// torch's default dump also names the communication: `0UNSHARD`, `0RESHARD`, `0SEND_F0`, `1RECV_F0` and the like for
/// B,
/// `(0SEND_F0;2RECV_F0)BATCH_P2P`. These cells are left out, because messages follow from the tasks, and columns then
/// mean an order only.
///
/// `(0F1;1B0)OVERLAP_F_B` contains two tasks, which run in that order, or as one (PipelineShape::joins_pairs).
/// `0REDUCE_GRAD`, which torch puts after the last backward of partition 0, is kept, and has no effect: with replicas,
/// lanes sum gradients at their end. R, L and O are PipeScope's own and optional: without them, a recompute runs right
/// before its backward, a loss right after the last partition's forward, and an update at the end of its row. So is a
/// first line with the lane of each partition.
///
///     # placement 0,1
///     0F0,0F1,,0B0,0B1
///     ,1F0,1B0,1F1,1B1
///
/// Source: torch.distributed.pipelining.schedules, _dump_csv and _Action (PyTorch 2.11).
struct ScheduleTable {
    /// Content of a cell: nothing, a task, or two tasks that torch overlaps. A backward of both input and weights is a
    /// single TaskKind::backward; its halves are TaskKind::backward with `input_only`, and TaskKind::backward_weight.
    struct Action {
        TaskKey task;  ///< step 0; all_reduce for REDUCE_GRAD, and optimizer for O
        bool input_only = false;

        friend bool operator==(const Action&, const Action&) = default;
    };
    using Cell = std::vector<Action>;

    std::vector<std::vector<Cell>> rows;  ///< by lane; rows may differ in length
    std::vector<LaneId> placement;        ///< of the placement line; empty: there is none
    std::string line_end = "\r\n";        ///< as Python's csv module writes it

    friend bool operator==(const ScheduleTable&, const ScheduleTable&) = default;
};

/// Parses the CSV. A byte order mark, spaces around cells, quotes around a cell and both line ends are accepted. Throws
/// UsageError that names row and column, counted from 1, of an invalid cell, or the number of an empty line that is not
/// the last one.
/// table_shape() checks the consistency of the cells.
/// `communication_cells`, if given, gets the number of those that were left out.
ScheduleTable parse_schedule_csv(std::string_view text, std::size_t* communication_cells = nullptr);
/// Writes the CSV: the same bytes as were read, if those end with a line end and have no mark, spaces or quotes.
std::string to_csv(const ScheduleTable& table);

/// The schedule of a graph, drawn as if every task took one slot and copies took none. Tasks that run as one share a
/// cell and its slot. Omits the loss, and recomputes if each stands right before its backward.
ScheduleTable schedule_table(const TaskGraph& graph);

/// Adds to `base` what the table determines: partitions, micro-batches, placement, and the loss of each micro-batch.
/// Throws UsageError unless each partition has one lane, that of the placement line, each micro-batch runs forward and
/// backward once on each partition, forward first, and updates end their rows. If the second half of the micro-batches
/// runs in reverse, partition j on row n - 1 - j, the shape is bidirectional. The message names rows and columns.
PipelineShape table_shape(const ScheduleTable& table, const PipelineShape& base = {});
/// The table's task graph. Throws UsageError like table_shape(), or if its recomputes fit no checkpoint mode. Without
/// recomputes the mode is base.checkpoint. Throws Error that describes the cycle if lanes wait for each other forever.
TaskGraph table_graph(const ScheduleTable& table, const PipelineShape& base = {});
/// True if any cell is I or W.
bool splits_backward(const ScheduleTable& table);
/// True if any cell holds a forward and a backward.
bool pairs_tasks(const ScheduleTable& table);
/// True if any cell is R.
bool recomputes(const ScheduleTable& table);
}  // namespace pipescope
