#pragma once

#include "engine/core_turns.h"
#include "schedule/task_graph.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace pipescope {
/// Lets each lane wait for the dependencies of its next task: one run of one TaskGraph.
///
/// Idea: every task counts what it still waits for. finish() counts its dependents down and wakes a lane only when one
/// of its tasks reaches zero, so a lane that is not behind never touches a lock.
/// Threading: all methods from any thread. What happened before finish(a) is visible after wait(b) where b depends on
/// a. Lifetime: the graph and the turns must outlive the gate.
class TaskGate {
public:
    /// `turns`: where lanes take cores in turns.
    explicit TaskGate(const TaskGraph& graph, CoreTurns* turns = nullptr);

    /// Returns true when every dependency of the task is finished, and the lane has a core where it takes turns; false
    /// as soon as the run is stopped.
    bool wait(TaskIndex task);
    void finish(TaskIndex task);
    /// The lane has nothing more to do in this run, or in this part of it.
    void leave(LaneId lane);
    /// Ends the run early: every wait() returns false from now on.
    void stop();
    bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

private:
    bool takes_turns(LaneId lane) const noexcept { return turns_ != nullptr && turns_->takes_part(lane); }

    struct Bell {
        std::mutex mutex;
        std::condition_variable rung;
    };
    bool is_ready(TaskIndex task) const noexcept { return missing_[task].load(std::memory_order_acquire) == 0; }
    void ring(LaneId lane);

    const TaskGraph& graph_;
    CoreTurns* const turns_;
    std::vector<std::atomic<int>> missing_;     // per task
    std::vector<std::unique_ptr<Bell>> bells_;  // per lane
    std::atomic<bool> stopped_ = false;
};
}  // namespace pipescope
