#pragma once

#include "engine/task_observer.h"
#include "schedule/timeline.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

namespace pipescope {
/// Forwards everything to another observer, if there is one, and records the start of each step's first forward and the
/// end of its last backward. With split backwards it records the end of the last gradients of weights, with shared
/// parameters that of the last sum, with staggered updates the end of the last update. A trace then knows its steps
/// even if the run is killed later.
class StepTimer : public TaskObserver {
public:
    /// `next` is borrowed and must outlive this object; may be null.
    StepTimer(TaskObserver* next, Update update, std::function<Nanoseconds()> now);

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
    /// Returns the bounds of the step's tasks so far, and forgets them. Call once no lane runs the step.
    Bounds take(std::int32_t step);

private:
    TaskObserver* const next_;
    const std::array<TaskKind, 3> last_kinds_;  // the last kinds of tasks in a step
    std::function<Nanoseconds()> now_;
    std::mutex mutex_;
    std::map<std::int32_t, Bounds> bounds_;  // by step; guarded by mutex_
};
}  // namespace pipescope
