#pragma once

#include "schedule/task_graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The orders a pipeline's lanes can run their tasks in.
enum class Schedule {
    gpipe,             ///< fill-drain: every forward, then every backward, last micro-batch first
    one_f_one_b,       ///< one forward, one backward, first micro-batch first: fewer live micro-batches, same bubble
    interleaved_1f1b,  ///< several partitions a lane: a smaller bubble for more copies
};

/// Names of the command line: gpipe, 1f1b, interleaved.
std::string to_string(Schedule schedule);
/// Throws UsageError that lists the names.
Schedule parse_schedule(std::string_view name);
std::vector<Schedule> all_schedules();

/// Whether the schedule computes the loss per micro-batch, inside: such a schedule cannot be cut into a forward that
/// returns and a backward that comes later.
bool needs_loss_inside(Schedule schedule);

/// The schedule's task graph. The shape's `loss` is set by the schedule.
///
/// 1F1B, n = 3, m = 4, without checkpointing (digits are micro-batches, ' marks backward):
///
///     lane 0   0  1  2  .  .  0' 3  1' .  2' .  3'
///     lane 1   .  0  1  .  0' 2  1' 3  2' .  3' .
///     lane 2   .  .  0  0' 1  1' 2  2' 3  3' .  .
///
/// Throws UsageError if the shape does not fit the schedule (interleaved: partition j on lane j mod lanes, two or more
/// partitions a lane, micro-batches a multiple of the lanes).
/// Source: 1F1B, PipeDream-flush (arXiv 2006.09503), section 2.2; interleaved, Megatron-LM (arXiv 2104.04473),
/// section 2.2.
TaskGraph make_schedule(Schedule schedule, PipelineShape shape);
}  // namespace pipescope
