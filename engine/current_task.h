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
/// Nothing outside the lanes of a GPipe model.
std::optional<CurrentTask> current_task();
/// Which micro-batch this thread computes; nothing outside, and in a loss of the whole mini-batch.
std::optional<MicroBatchId> current_micro_batch();

/// Whether this thread runs a forward whose graph will be thrown away and recomputed.
bool is_checkpointing();
/// Whether this thread runs the second forward of a checkpointed micro-batch.
bool is_recomputing();
}  // namespace pipescope
