#pragma once

#include "engine/task_observer.h"
#include "schedule/memory_category.h"
#include "schedule/timeline.h"

#include <atomic>
#include <cstdint>
#include <deque>
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
/// What the caller made stays the caller's: where a partition hands a part of the mini-batch on, a storage that holds
/// all of it, no lane is charged.
///
/// A lane on an accelerator is told its blocks by the device's allocator (device_listening.h), with reserved bytes,
/// which are the whole device's. What its tasks take and free is heard; what a thread of the caller's frees, only where
/// that one listens too: a training loop holds a DeviceListening. Then also the inputs that a lane copies to its device
/// are its boundary. Where a profiler of torch's has the place of the listener, or a backend's allocator reports to
/// nobody, such a lane reports from then on what the device's statistics say of all its lanes together, without a
/// composition.
class LaneMemory : public TaskObserver {
public:
    /// `record` is called on worker threads; it must be thread-safe.
    LaneMemory(std::function<Nanoseconds()> now, std::function<void(const MemorySample&)> record);
    ~LaneMemory() override;

    void placed(const at::Tensor& tensor, LaneId lane) override;
    void task_started(const TaskKey& key, LaneId lane) override;
    void task_ended(const TaskKey& key, LaneId lane) override;
    void moved(const at::Tensor& tensor, LaneId to) override;

private:
    struct Placed {
        std::vector<at::Tensor> tensors;
        std::atomic<bool> is_heard{true};

        bool on_accelerator() const { return !tensors.front().is_cpu(); }
    };
    /// Null for a lane without parameters and buffers.
    Placed* placed_on(LaneId lane);
    bool may_be_on_accelerator(LaneId lane);

    void begin_step(std::int32_t step);
    static void categorize_gradients(const Placed& placed, LaneId lane);
    void record_account(MemorySample& sample, MemoryCategory left);
    bool record_device(MemorySample& sample, c10::Device device) const;

    std::function<Nanoseconds()> now_;
    std::function<void(const MemorySample&)> record_;
    std::deque<Placed> placed_;  // by lane; filled before tasks run, as the next
    bool has_accelerator_ = false;
    std::atomic<std::int32_t> step_{-1};
};
}  // namespace pipescope
