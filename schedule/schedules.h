#pragma once

#include "schedule/task_graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The orders in which lanes can run their tasks.
enum class Schedule {
    gpipe,             ///< fill-drain: every forward, then every backward, last micro-batch first
    one_f_one_b,       ///< alternates forward and backward, first micro-batch first: same bubble, fewer live
                       ///< micro-batches
    interleaved_1f1b,  ///< several partitions per lane: smaller bubble, more copies
    zero_bubble_h1,    ///< 1F1B that delays weight gradients to fill the bubble, with the memory of 1F1B
    // For comparison only: the simulator runs these, the engine does not.
    pipedream,       ///< 1F1B that never drains: no bubble, but micro-batches see weights of different ages
    model_parallel,  ///< one micro-batch at a time, on one lane at a time
};

/// Names as on the command line: gpipe, 1f1b, interleaved, zero-bubble-h1, pipedream, model-parallel.
std::string to_string(Schedule schedule);
/// Throws UsageError that lists the names.
Schedule parse_schedule(std::string_view name);
std::vector<Schedule> all_schedules();
/// Those that the engine runs too, which are the first of all.
std::vector<Schedule> runnable_schedules();
/// Their names for messages and help: "gpipe, 1f1b or interleaved", or with other words before the last one.
std::string runnable_schedule_names(std::string_view before_last = " or ");

/// True if the schedule computes the loss of each micro-batch within the step. Such a schedule cannot be split into a
/// forward that returns and a later backward.
bool needs_loss_inside(Schedule schedule);
/// True if the backward is split into gradients of inputs (backward) and of weights (backward_weight).
bool splits_backward(Schedule schedule);
/// True if the update equals that on one device: the step drains, and there is one version of the weights. False for
/// pipedream, whose gradients mix weights of different ages.
bool is_synchronous(Schedule schedule);
/// True if only the simulator can run the schedule.
bool is_for_comparison_only(Schedule schedule);

/// Throws UsageError if the shape is invalid or does not fit the schedule. Interleaved needs partition j on lane j mod
/// lanes, two or more partitions per lane, and a number of micro-batches that is a multiple of the lanes. 1F1B,
/// PipeDream and zero-bubble run one partition per lane.
void check_schedule(Schedule schedule, const PipelineShape& shape);

/// Builds the schedule's task graph. Sets the shape's `loss` as the schedule needs it.
///
/// 1F1B, n = 3, m = 4, without checkpointing (digits are micro-batches, ' marks backward):
///
///     lane 0   0  1  2  .  .  0' 3  1' .  2' .  3'
///     lane 1   .  0  1  .  0' 2  1' 3  2' .  3' .
///     lane 2   .  .  0  0' 1  1' 2  2' 3  3' .  .
///
/// Zero-bubble H1, n = 3, m = 4, all tasks of one length (w is the backward of the weights): B starts as soon as
/// possible, and W fills the gaps that 1F1B leaves at the end. Lane j delays the W of its first j micro-batches.
///
///     lane 0   0  1  2  .  .  0' 0w 3  1' 1w 2' 2w 3' 3w
///     lane 1   .  0  1  .  0' 2  1' 0w 3  2' 1w 3' 2w 3w
///     lane 2   .  .  0  0' 1  1' 2  2' 0w 3  3' 1w 2w 3w
///
/// A pipedream graph holds the micro-batches of several successive mini-batches; m is their total.
///
/// Throws as check_schedule() does.
/// Source: 1F1B, PipeDream-flush (arXiv 2006.09503), section 2.2; interleaved, Megatron-LM (arXiv 2104.04473),
/// section 2.2; zero bubble, arXiv 2401.10241, section 3.1; PipeDream, arXiv 1806.03377, section 3.2.
TaskGraph make_schedule(Schedule schedule, PipelineShape shape);
}  // namespace pipescope
