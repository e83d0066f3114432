#pragma once

#include "schedule/ids.h"
#include "schedule/task_key.h"

#include <chrono>
#include <optional>

namespace pipescope {
/// The task this thread is running, for layers that want to know where they are.
struct CurrentTask {
    TaskKey key;
    LaneId lane;
    std::chrono::steady_clock::time_point started;
};
/// Empty outside the lanes of a GPipe model.
std::optional<CurrentTask> current_task();
/// The micro-batch that this thread computes; empty outside tasks, and in a loss of the whole mini-batch.
std::optional<MicroBatchId> current_micro_batch();

/// True if this thread runs a forward whose graph will be discarded and recomputed.
bool is_checkpointing();
/// True if this thread runs the second forward of a checkpointed micro-batch.
bool is_recomputing();
}  // namespace pipescope
