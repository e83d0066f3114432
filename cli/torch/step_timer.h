#pragma once

#include "engine/task_observer.h"
#include "schedule/timeline.h"

#include <functional>
#include <mutex>
#include <optional>

namespace pipescope {
/// Forwards everything to another observer, and records the start of each step's first forward and the end of its last
/// backward. A trace then knows its steps even if the run is killed later.
class StepTimer : public TaskObserver {
public:
    /// `next` is borrowed and must outlive this object.
    StepTimer(TaskObserver& next, std::function<Nanoseconds()> now);

    void placed(const at::Tensor& tensor, LaneId lane) override;
    void task_started(const TaskKey& key, LaneId lane) override;
    void task_ended(const TaskKey& key, LaneId lane) override;
    void moved(const at::Tensor& tensor, LaneId to) override;
    void kept(const at::Tensor& gradient, LaneId lane) override;
    void received(const at::Tensor& tensor, const TaskKey& copy, LaneId to) override;

    struct Bounds {
        std::optional<Nanoseconds> start;
        std::optional<Nanoseconds> end;
    };
    /// Bounds of the tasks since the last call. Call between steps.
    Bounds take();

private:
    TaskObserver& next_;
    std::function<Nanoseconds()> now_;
    std::mutex mutex_;
    Bounds bounds_;  // guarded by mutex_
};
}  // namespace pipescope
