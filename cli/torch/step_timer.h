#pragma once

#include "engine/task_observer.h"
#include "schedule/timeline.h"

#include <functional>
#include <mutex>
#include <optional>

namespace pipescope {
/// Passes everything on to another observer and notes when the step's first forward starts and its last backward ends,
/// so that a trace knows its steps even if the run is killed later.
class StepTimer : public TaskObserver {
public:
    /// `next` is borrowed and must outlive this.
    StepTimer(TaskObserver& next, std::function<Nanoseconds()> now);

    void placed(const at::Tensor& tensor, LaneId lane) override;
    void task_started(const TaskKey& key, LaneId lane) override;
    void task_ended(const TaskKey& key, LaneId lane) override;
    void moved(const at::Tensor& tensor, LaneId to) override;

    struct Bounds {
        std::optional<Nanoseconds> start;
        std::optional<Nanoseconds> end;
    };
    /// Of the tasks since the last call. Called between steps.
    Bounds take();

private:
    TaskObserver& next_;
    std::function<Nanoseconds()> now_;
    std::mutex mutex_;
    Bounds bounds_;  // under mutex_
};
}  // namespace pipescope
