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
/// Charges tasks to their lanes, and reports each lane's memory and its composition after each task. `peak` of a sample
/// covers the time since the lane's previous sample (initially since construction), including the time between tasks.
/// If a task's peak exceeds the values at both its ends, a sample at the instant of the peak precedes the sample at its
/// end. Allocations of a thread outside tasks belong to the thread's own owner.
///
/// Categories (defined in simulator/memory/memory_model.h): parameters are placed; gradients are found at the
/// parameters after a backward; copied tensors are boundary, copy or skip by the kind of the copy. All other
/// allocations of a task are transient while it runs. The task decides the category of bytes that remain afterwards. A
/// forward or recompute leaves saved bytes. A backward leaves copy (gradients to be passed on), or saved if its first
/// half keeps them for the second. The loss leaves output, the optimizer its state. An output that waits for its copy,
/// or for the loss on the last lane, therefore counts as saved.
///
/// If a partition passes on a part of the mini-batch, in a storage that holds all of it, no lane is charged: the caller
/// created it.
///
/// Accelerators: the device's allocator reports the blocks (device_listening.h) and the reserved bytes of the whole
/// device. Allocations and frees of tasks are always heard. Frees of the caller's threads are heard only if these
/// listen too: a training loop holds a DeviceListening. Inputs that a lane copies to its device then count as its
/// boundary. If a torch profiler occupies the slot, or a backend's allocator reports to nobody, such a lane uses the
/// device's statistics, which cover all its lanes together and have no composition.
class LaneMemory : public TaskObserver {
public:
    /// `record` is called on worker threads and must be thread-safe.
    LaneMemory(std::function<Nanoseconds()> now, std::function<void(const MemorySample&)> record);
    ~LaneMemory() override;

    void placed(const at::Tensor& tensor, LaneId lane) override;
    void task_started(const TaskKey& key, LaneId lane) override;
    void task_ended(const TaskKey& key, LaneId lane) override;
    void moved(const at::Tensor& tensor, LaneId to) override;
    void kept(const at::Tensor& gradient, LaneId lane) override;
    void received(const at::Tensor& tensor, const TaskKey& copy, LaneId to) override;

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
    std::deque<Placed> placed_;  // by lane; filled before tasks run, like the next member
    bool has_accelerator_ = false;
    std::atomic<std::int32_t> step_{-1};
};
}  // namespace pipescope
