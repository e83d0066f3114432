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
    // The others are for comparison: the simulator runs them, the engine does not.
    zero_bubble_h1,  ///< 1F1B whose weight gradients wait and fill the bubble, at the memory of 1F1B
    pipedream,       ///< 1F1B that never drains: no bubble, but micro-batches see weights of different age
    model_parallel,  ///< one micro-batch after the other, one lane at a time
};

/// Names of the command line: gpipe, 1f1b, interleaved, zero-bubble-h1, pipedream, model-parallel.
std::string to_string(Schedule schedule);
/// Throws UsageError that lists the names.
Schedule parse_schedule(std::string_view name);
std::vector<Schedule> all_schedules();

/// Whether the schedule computes the loss per micro-batch, inside: such a schedule cannot be cut into a forward that
/// returns and a backward that comes later.
bool needs_loss_inside(Schedule schedule);
/// Whether the backward is split into that of the inputs (backward) and that of the weights (backward_weight).
bool splits_backward(Schedule schedule);
/// Whether the update is the same as on one device; pipedream's is not, its gradients are of weights of different age.
bool is_synchronous(Schedule schedule);
/// Whether the engine runs it too.
bool is_for_comparison_only(Schedule schedule);

/// The schedule's task graph. The shape's `loss` is set by the schedule.
///
/// 1F1B, n = 3, m = 4, without checkpointing (digits are micro-batches, ' marks backward):
///
///     lane 0   0  1  2  .  .  0' 3  1' .  2' .  3'
///     lane 1   .  0  1  .  0' 2  1' 3  2' .  3' .
///     lane 2   .  .  0  0' 1  1' 2  2' 3  3' .  .
///
/// Zero-bubble H1, n = 3, m = 4, all tasks of one length (w is the backward of the weights): B goes back at once, and W
/// fills what 1F1B leaves empty at the end. Lane j holds the W of its first j micro-batches back.
///
///     lane 0   0  1  2  .  .  0' 0w 3  1' 1w 2' 2w 3' 3w
///     lane 1   .  0  1  .  0' 2  1' 0w 3  2' 1w 3' 2w 3w
///     lane 2   .  .  0  0' 1  1' 2  2' 0w 3  3' 1w 2w 3w
///
/// A graph of pipedream's holds micro-batches of several mini-batches in a row: give m of all of them.
///
/// Throws UsageError if the shape does not fit the schedule (interleaved: partition j on lane j mod lanes, two or more
/// partitions a lane, micro-batches a multiple of the lanes).
/// Source: 1F1B, PipeDream-flush (arXiv 2006.09503), section 2.2; interleaved, Megatron-LM (arXiv 2104.04473),
/// section 2.2; zero bubble, arXiv 2401.10241, section 3.1; PipeDream, arXiv 1806.03377, section 3.2.
TaskGraph make_schedule(Schedule schedule, PipelineShape shape);
}  // namespace pipescope
