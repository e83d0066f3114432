#pragma once

#include "engine/task_observer.h"
#include "schedule/memory_category.h"
#include "schedule/timeline.h"

#include <functional>
#include <vector>

namespace pipescope {
/// Charges tasks to their lanes and reports what each lane holds after each task, and of what that consists. `peak` of
/// a sample covers everything since the lane's sample before (the first: since this was made), also what happened
/// between two tasks. Where a task's peak was above both its ends, a sample of that instant stands before the one of
/// its end. What a thread allocates outside a task stays with the thread's own owner.
///
/// How bytes get their category (simulator/memory_model.h says what each means): parameters are placed, gradients are
/// found at the parameters when a backward ends, what moves with a copy is boundary, copy or skip by the copy's kind.
/// What else a task takes is transient while it runs. What is left then is, of a forward or recompute, saved; of a
/// backward, copy (gradients that wait to be handed on); of the loss, output; of the optimizer, its state. So an output
/// that waits for its copy, or on the last lane for the loss, counts as saved.
///
/// A lane on an accelerator reports what the device's allocator holds, reserved bytes too, without a composition; lanes
/// that share a device all report the device's.
class LaneMemory : public TaskObserver {
public:
    /// `record` is called on worker threads; it must be thread-safe.
    LaneMemory(std::function<Nanoseconds()> now, std::function<void(const MemorySample&)> record);

    void placed(const at::Tensor& tensor, LaneId lane) override;
    void task_started(const TaskKey& key, LaneId lane) override;
    void task_ended(const TaskKey& key, LaneId lane) override;
    void moved(const at::Tensor& tensor, LaneId to) override;

private:
    void categorize_gradients(LaneId lane) const;
    void record_host(MemorySample& sample, MemoryCategory left);
    bool record_accelerator(MemorySample& sample) const;

    std::function<Nanoseconds()> now_;
    std::function<void(const MemorySample&)> record_;
    std::vector<std::vector<at::Tensor>> placed_;  // by lane; filled before tasks run
};
}  // namespace pipescope
