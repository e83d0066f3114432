#pragma once

#include "engine/task_observer.h"
#include "schedule/timeline.h"

#include <functional>
#include <vector>

namespace pipescope {
/// Wraps torch's CPU allocator so that every byte knows its owner: each allocation is charged to the owner set on the
/// allocating thread and credited back to it wherever it is freed. Process-wide, since torch has one CPU allocator:
/// call install() once, before any tensor exists. Owner 0 is everybody else; lane k is owner k + 1. Units: the bytes
/// torch asked for; padding and the allocator's own header are not counted. Threading: everything but install() may be
/// called from any thread, and takes no lock.
namespace tracking_allocator {
/// Larger than the owner of any lane: what a measurement outside a pipeline charges to.
inline constexpr int kMeasuredOwner = kMostPartitions + 1;
inline constexpr int kNumOwners = kMeasuredOwner + 1;

/// Does nothing the second time. Tensors from before stay valid and are charged to nobody. Also tells malloc to keep
/// what is freed, so that a layer's time does not depend on whether its memory has to be faulted in again: profile and
/// run find memory in the same state, and the process stays at its largest size.
void install();
bool installed();

/// Owner of what this thread allocates from now on; returns the one before. Throws Error unless 0 <= owner <
/// kNumOwners.
int set_owner(int owner);
/// Moves the charge of the tensor's storage; no effect on storages this allocator did not make. The same error.
void recharge(const at::Tensor& tensor, int owner);

Bytes allocated(int owner);
/// Highest since the last reset_peak().
Bytes peak(int owner);
void reset_peak(int owner);
/// Highest since the last take_window() of this owner; apart from peak(), so that both can be used at once. No
/// allocation falls between two windows, whatever other threads do meanwhile.
Bytes take_window(int owner);
}  // namespace tracking_allocator

/// Charges tasks to their lanes and reports what each lane holds after each task: `peak` of a sample covers everything
/// since the lane's sample before (the first: since this was made), also what happened between two tasks.
/// What a thread allocates outside a task stays with the thread's own owner.
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
