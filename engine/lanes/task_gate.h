#pragma once

#include "base/thread_primitives.h"
#include "engine/cores/core_scheduler.h"
#include "schedule/task_graph.h"

#include <vector>

namespace pipescope {
/// Lets each lane wait for the dependencies of its next task, for one run of one TaskGraph.
///
/// Idea: every task counts its open dependencies. finish() decrements its dependents' counts and wakes a lane only when
/// one of that lane's tasks reaches zero, so a lane whose next task is ready never takes a lock.
/// Threading: all methods from any thread. Work before finish(a) is visible after wait(b) if b depends on a. Lifetime:
/// the graph and the scheduler must outlive the gate.
class TaskGate {
public:
    /// `scheduler`: given if lanes share cores.
    explicit TaskGate(const TaskGraph& graph, CoreScheduler* scheduler = nullptr);

    /// Returns true once every dependency of the task is finished and the lane, if it shares cores, has one. Returns
    /// false as soon as the run is stopped.
    bool wait(TaskIndex task);
    void finish(TaskIndex task);
    /// The lane has no more work in this run, or in this part of it.
    void leave(LaneId lane);
    /// Ends the run early: every wait() returns false from now on.
    void stop();
    bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

private:
    bool shares_cores(LaneId lane) const noexcept { return scheduler_ != nullptr && scheduler_->takes_part(lane); }

    struct Bell {
        Mutex mutex;
        Condition rung;
    };
    bool is_ready(TaskIndex task) const noexcept { return missing_[task].load(std::memory_order_acquire) == 0; }
    void ring(LaneId lane);

    const TaskGraph& graph_;
    CoreScheduler* const scheduler_;
    std::vector<Atomic<int>> missing_;  // per task
    std::vector<Bell> bells_;           // per lane
    Atomic<bool> stopped_ = false;
};
}  // namespace pipescope
