#pragma once

#include "engine/device/pipeline_devices.h"
#include "schedule/task_graph.h"

#include <functional>
#include <memory>
#include <span>

namespace pipescope {
/// What the devices of the lanes need in a step. This class is for lanes on the host, where a task's work is done when
/// it returns and all share memory: nothing. StepStreams is for accelerators.
/// Threading: begin(), end() and abandon() on the caller's thread while no lane runs; receive() on the thread that
/// received; the others on the lane of their task.
class StepDevices {
public:
    StepDevices() = default;
    virtual ~StepDevices() = default;
    StepDevices(const StepDevices&) = delete;
    StepDevices& operator=(const StepDevices&) = delete;

    /// Orders the lanes after the caller's work, which has made `inputs`, and the caller's next work after the lanes'.
    virtual void begin(const Tensors& /*inputs*/) {}
    virtual void end() {}
    /// Instead of end() after a failure: waits until no device computes for this step any more.
    virtual void abandon() {}

    /// Copies a micro-batch's input to the first lane, in place, when that lane is about to compute on it.
    virtual void enter(MicroBatchId /*micro_batch*/, LaneId /*lane*/, Tensors& /*inputs*/) {}
    /// Before and after the lane launches the task.
    virtual void before(TaskIndex /*task*/) {}
    virtual void after(TaskIndex /*task*/) {}
    /// Sends the tensors that the copy moves and puts the arriving ones in their place.
    virtual void run_copy(TaskIndex /*copy*/, std::span<at::Tensor> /*moved*/) {}

    /// Releases what the lane's tasks so far have read, once they have run.
    virtual void release(LaneId /*lane*/, Tensors /*read*/) {}

    /// For a copy to another process: calls `pack` with the link to the host, within its run(), or without one if the
    /// sender is there. The host may read what was packed once the returned event has passed; with a PeerDevice at
    /// once, since nothing was copied there.
    virtual StreamEvent send(TaskIndex /*copy*/, Tensors /*sent*/, const std::function<void(const LaneLink*)>& pack) {
        pack(nullptr);
        return {};
    }
    /// For a copy from another process: calls `unpack` with the link from the host, within its run(), or without one if
    /// the receiver is there. Returns the tensors for its lane.
    virtual Tensors receive(TaskIndex /*copy*/, const std::function<Tensors(const LaneLink*)>& unpack) {
        return unpack(nullptr);
    }
};

/// Borrows devices and graph. `trains`: a backward may follow.
std::unique_ptr<StepDevices> step_devices(PipelineDevices& devices, const TaskGraph& graph, bool trains);
}  // namespace pipescope
