#pragma once

#include "engine/task_observer.h"
#include "schedule/timeline.h"

#include <functional>
#include <vector>

namespace pipescope {
/// Wraps torch's CPU allocator so that every byte knows its owner: each allocation is charged to the owner set on the
/// allocating thread and credited back to it wherever it is freed. Process-wide, since torch has one CPU allocator: call
/// install() once, before any tensor exists. Owner 0 is everybody else; lane k is owner k + 1.
namespace tracking_allocator {
void install();
bool installed();

/// Owner of what this thread allocates from now on; returns the one before.
int set_owner(int owner);
/// Moves the charge of the tensor's storage; no effect on storages this allocator did not make.
void recharge(const at::Tensor& tensor, int owner);

Bytes allocated(int owner);
/// Highest since the last reset_peak().
Bytes peak(int owner);
void reset_peak(int owner);
}  // namespace tracking_allocator

/// Charges tasks to their lanes and reports what each lane holds after each task.
class LaneMemory : public TaskObserver {
public:
    /// `record` is called on worker threads; it must be thread-safe.
    LaneMemory(std::function<Nanoseconds()> now, std::function<void(const MemorySample&)> record);

    void placed(const at::Tensor& tensor, LaneId lane) override;
    void task_started(const TaskKey& key, LaneId lane) override;
    void task_ended(const TaskKey& key, LaneId lane) override;
    void moved(const at::Tensor& tensor, LaneId to) override;

private:
    std::function<Nanoseconds()> now_;
    std::function<void(const MemorySample&)> record_;
};
}  // namespace pipescope
