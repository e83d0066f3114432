#include "cli/torch/step_timer.h"

#include <algorithm>
#include <utility>

namespace pipescope {
StepTimer::StepTimer(TaskObserver& next, std::function<Nanoseconds()> now) : next_(next), now_(std::move(now)) {}

void StepTimer::placed(const at::Tensor& tensor, LaneId lane) {
    next_.placed(tensor, lane);
}
void StepTimer::kept(const at::Tensor& gradient, LaneId lane) {
    next_.kept(gradient, lane);
}

void StepTimer::moved(const at::Tensor& tensor, LaneId to) {
    next_.moved(tensor, to);
}
void StepTimer::received(const at::Tensor& tensor, const TaskKey& copy, LaneId to) {
    next_.received(tensor, copy, to);
}

void StepTimer::task_started(const TaskKey& key, LaneId lane) {
    next_.task_started(key, lane);
    if (key.kind == TaskKind::forward) {
        const Nanoseconds now = now_();
        const std::lock_guard lock(mutex_);
        bounds_.start = bounds_.start ? std::min(*bounds_.start, now) : now;
    }
}

void StepTimer::task_ended(const TaskKey& key, LaneId lane) {
    next_.task_ended(key, lane);
    if (key.kind == TaskKind::backward) {
        const Nanoseconds now = now_();
        const std::lock_guard lock(mutex_);
        bounds_.end = bounds_.end ? std::max(*bounds_.end, now) : now;
    }
}

StepTimer::Bounds StepTimer::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(bounds_, {});
}
}  // namespace pipescope
