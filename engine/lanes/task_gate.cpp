#include "engine/lanes/task_gate.h"

#include <atomic>
#include <mutex>

namespace pipescope {
TaskGate::TaskGate(const TaskGraph& graph, CoreScheduler* scheduler)
    : graph_(graph),
      scheduler_(scheduler),
      missing_(graph.tasks().size()),
      bells_(static_cast<std::size_t>(graph.num_lanes())) {
    for (TaskIndex task = 0; task < missing_.size(); ++task) {
        missing_[task].store(static_cast<int>(graph.dependencies(task).size()), std::memory_order_relaxed);
    }
}

bool TaskGate::wait(TaskIndex task) {
    const LaneId lane = graph_.tasks()[task].lane;
    if (shares_cores(lane)) {
        scheduler_->wait(lane, [&] { return is_ready(task) || stopped(); });
    } else if (!is_ready(task) && !stopped()) {
        Bell& bell = bells_[lane.index()];
        std::unique_lock lock(bell.mutex);
        bell.rung.wait(lock, [&] { return is_ready(task) || stopped(); });
    }
    return !stopped();
}

void TaskGate::finish(TaskIndex task) {
    const LaneId here = graph_.tasks()[task].lane;
    for (const TaskIndex dependent : graph_.dependents(task)) {
        const LaneId there = graph_.tasks()[dependent].lane;
        // acq_rel: the last decrement publishes what all the others made visible.
        if (missing_[dependent].fetch_sub(1, std::memory_order_acq_rel) == 1 && there != here) {
            ring(there);
        }
    }
}

void TaskGate::leave(LaneId lane) {
    if (shares_cores(lane)) {
        scheduler_->leave(lane);
    }
}

void TaskGate::stop() {
    stopped_.store(true, std::memory_order_release);
    for (int lane = 0; lane < graph_.num_lanes(); ++lane) {
        ring(LaneId{lane});
    }
}

void TaskGate::ring(LaneId lane) {
    if (shares_cores(lane)) {
        scheduler_->call(lane);
        return;
    }
    Bell& bell = bells_[lane.index()];
    // The lock ensures that a lane between its look at the counter and its sleep does not miss the bell.
    { const std::lock_guard lock(bell.mutex); }
    bell.rung.notify_one();
}
}  // namespace pipescope
