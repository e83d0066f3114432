#pragma once

#include "engine/current_task.h"
#include "engine/lanes/profiler_range.h"
#include "engine/lanes/task_ranges.h"
#include "engine/task_observer.h"

namespace pipescope {
/// A running task: opens its ranges in NVTX and in torch's profiler, sets current_task() and notifies the observer (may
/// be null).
class TaskSpan {
public:
    /// `is_split`: a backward whose gradients of weights are a task of their own. `is_profiled`: may_be_profiled(),
    /// if it is known.
    TaskSpan(const TaskKey& key, LaneId lane, bool is_checkpointed_forward, TaskObserver* observer,
             bool is_split = false, bool is_profiled = true)
        : key_(key),
          lane_(lane),
          observer_(observer),
          range_(key),
          profiler_range_(key, is_split, is_profiled),
          scope_(key, lane, is_checkpointed_forward) {
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
    const ProfilerRange profiler_range_;
    const CurrentTaskScope scope_;
};
}  // namespace pipescope
