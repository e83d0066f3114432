#pragma once

#include "engine/current_task.h"
#include "engine/lanes/task_ranges.h"
#include "engine/task_observer.h"

namespace pipescope {
/// A running task: opens its NVTX range, sets current_task() and notifies the observer (may be null).
class TaskSpan {
public:
    TaskSpan(const TaskKey& key, LaneId lane, bool is_checkpointed_forward, TaskObserver* observer)
        : key_(key), lane_(lane), observer_(observer), range_(key), scope_(key, lane, is_checkpointed_forward) {
        if (observer_ != nullptr) {
            observer_->task_started(key_, lane_);
        }
    }
    ~TaskSpan() {
        if (observer_ != nullptr) {
            observer_->task_ended(key_, lane_);
        }
    }
    /// The observer hears nothing of the task's end.
    void forget_observer() { observer_ = nullptr; }

    TaskSpan(const TaskSpan&) = delete;
    TaskSpan& operator=(const TaskSpan&) = delete;

private:
    const TaskKey key_;
    const LaneId lane_;
    TaskObserver* observer_;
    const TaskRange range_;
    const CurrentTaskScope scope_;
};
}  // namespace pipescope
