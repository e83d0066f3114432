#pragma once

#include "base/ids.h"
#include "schedule/task_key.h"

#include <chrono>
#include <optional>

namespace pipescope {
/// The task this thread is running, for layers that want to know where they are.
struct CurrentTask {
    TaskKey key;
    LaneId lane;
    std::chrono::steady_clock::time_point started;
    LayerId layer{-1};  ///< the layer that runs, or ran last in this task; -1 before the first
};
/// Empty outside the lanes of a GPipe model.
std::optional<CurrentTask> current_task();
/// The micro-batch that this thread computes; empty outside tasks, and in a loss of the whole mini-batch.
std::optional<MicroBatchId> current_micro_batch();

/// True if this thread runs a forward whose graph will be discarded and recomputed.
bool is_checkpointing();
/// True if this thread runs the second forward of a checkpointed micro-batch.
bool is_recomputing();

// For the engine and the profiler, which run the tasks.

/// While it lives, the functions above report this task on this thread. Scopes do not nest.
class CurrentTaskScope {
public:
    CurrentTaskScope(const TaskKey& key, LaneId lane, bool is_checkpointed_forward);
    ~CurrentTaskScope();
    CurrentTaskScope(const CurrentTaskScope&) = delete;
    CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;
};

/// Sets CurrentTask::layer; no effect outside tasks.
void set_current_layer(LayerId layer);

/// While it lives, a layer of the current task runs another model's layers in this thread. Then CurrentTask::layer is
/// the outer layer again.
class OtherModelScope {
public:
    OtherModelScope();
    ~OtherModelScope();
    OtherModelScope(const OtherModelScope&) = delete;
    OtherModelScope& operator=(const OtherModelScope&) = delete;

private:
    const LayerId outer_;
};
}  // namespace pipescope
