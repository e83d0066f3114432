#include "engine/current_task.h"

namespace pipescope {
namespace {
thread_local std::optional<CurrentTask> task_of_this_thread;
thread_local bool checkpointing = false;
}  // namespace

std::optional<CurrentTask> current_task() {
    return task_of_this_thread;
}
std::optional<MicroBatchId> current_micro_batch() {
    if (!task_of_this_thread || task_of_this_thread->key.micro_batch < 0) {
        return std::nullopt;
    }
    return MicroBatchId{task_of_this_thread->key.micro_batch};
}
bool is_checkpointing() {
    return checkpointing;
}
bool is_recomputing() {
    return task_of_this_thread && task_of_this_thread->key.kind == TaskKind::recompute;
}

CurrentTaskScope::CurrentTaskScope(const TaskKey& key, LaneId lane, bool is_checkpointed_forward) {
    task_of_this_thread = CurrentTask{.key = key, .lane = lane, .started = std::chrono::steady_clock::now()};
    checkpointing = is_checkpointed_forward;
}

CurrentTaskScope::~CurrentTaskScope() {
    task_of_this_thread.reset();
    checkpointing = false;
}

void set_current_layer(LayerId layer) {
    if (task_of_this_thread) {
        task_of_this_thread->layer = layer;
    }
}

OtherModelScope::OtherModelScope() : outer_(task_of_this_thread ? task_of_this_thread->layer : LayerId{-1}) {}

OtherModelScope::~OtherModelScope() {
    set_current_layer(outer_);
}
}  // namespace pipescope
