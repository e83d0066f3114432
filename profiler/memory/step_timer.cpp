#include "profiler/memory/step_timer.h"

#include <algorithm>
#include <utility>

namespace pipescope {
StepTimer::StepTimer(TaskObserver* next, Update update, std::function<Nanoseconds()> now)
    : next_(next),
      last_kinds_(update == Update::staggered
                      ? std::array{TaskKind::optimizer, TaskKind::optimizer, TaskKind::optimizer}
                      : std::array{TaskKind::backward, TaskKind::backward_weight, TaskKind::shared_sum}),
      now_(std::move(now)) {}

void StepTimer::placed(const at::Tensor& tensor, LaneId lane) {
    if (next_ != nullptr) {
        next_->placed(tensor, lane);
    }
}

void StepTimer::kept(const at::Tensor& gradient, LaneId lane) {
    if (next_ != nullptr) {
        next_->kept(gradient, lane);
    }
}

void StepTimer::moved(const at::Tensor& tensor, LaneId to) {
    if (next_ != nullptr) {
        next_->moved(tensor, to);
    }
}

void StepTimer::received(const at::Tensor& tensor, const TaskKey& copy, LaneId to) {
    if (next_ != nullptr) {
        next_->received(tensor, copy, to);
    }
}

void StepTimer::task_started(const TaskKey& key, LaneId lane) {
    if (next_ != nullptr) {
        next_->task_started(key, lane);
    }
    if (key.kind == TaskKind::forward) {
        const Nanoseconds now = now_();
        const std::lock_guard lock(mutex_);
        Bounds& bounds = bounds_[key.step];
        bounds.start = bounds.start ? std::min(*bounds.start, now) : now;
    }
}

void StepTimer::task_ended(const TaskKey& key, LaneId lane) {
    if (next_ != nullptr) {
        next_->task_ended(key, lane);
    }
    if (std::ranges::find(last_kinds_, key.kind) != last_kinds_.end()) {
        const Nanoseconds now = now_();
        const std::lock_guard lock(mutex_);
        Bounds& bounds = bounds_[key.step];
        bounds.end = bounds.end ? std::max(*bounds.end, now) : now;
    }
}

StepTimer::Bounds StepTimer::take(std::int32_t step) {
    const std::lock_guard lock(mutex_);
    const auto found = bounds_.find(step);
    return found == bounds_.end() ? Bounds{} : bounds_.extract(found).mapped();
}
}  // namespace pipescope
