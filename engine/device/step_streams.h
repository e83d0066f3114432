#pragma once

#include "engine/device/pipeline_devices.h"
#include "schedule/task_graph.h"

#include <functional>
#include <span>
#include <vector>

namespace pipescope {
/// Orders the streams of one step as the TaskGraph orders its tasks, and keeps tensors that cross them alive.
///
/// The gate lets a task start once its dependencies have been *launched*: on a device they may still run. So a task
/// that another lane waits for records an event, and the waiting task makes its stream wait for it. Copies run on the
/// streams of their link, in parallel with both lanes' computation.
/// A received tensor stays referenced until its last reader has passed on the device: the backward, or the forward if
/// nothing else holds the tensor or no backward follows.
/// Used only if a lane is on an accelerator. Threading: each method on the lane of its task; the TaskGraph's order
/// keeps the lanes apart.
class StepStreams {
public:
    /// Borrows devices and graph. `trains`: a backward may follow.
    StepStreams(PipelineDevices& devices, const TaskGraph& graph, bool trains);

    /// Copies a micro-batch's input to the first lane, in place, when that lane is about to compute on it. The host
    /// runs ahead of the device, so the copy overlaps the previous micro-batch.
    void enter(MicroBatchId micro_batch, LaneId lane, Tensors& inputs);
    /// Before and after the lane launches the task.
    void before(TaskIndex task);
    void after(TaskIndex task);
    /// Sends the tensors that the copy moves and puts the arriving ones in their place.
    void run_copy(TaskIndex copy, std::span<at::Tensor> moved);

    /// For a copy to another process: calls `pack` with the link to the host, within its run(), or without one if the
    /// sender is there. The host may read what was packed once the returned event has passed; with a PeerDevice at
    /// once, since nothing was copied there.
    StreamEvent send(TaskIndex copy, Tensors sent, const std::function<void(const LaneLink*)>& pack);
    /// For a copy from another process, on the thread that received it: calls `unpack` with the link from the host,
    /// within its run(), or without one if the receiver is there. Returns the tensors for its lane.
    Tensors receive(TaskIndex copy, const std::function<Tensors(const LaneLink*)>& unpack);
    /// Blocks until the caller's input in host memory has been read, so that the caller may overwrite it.
    void wait_for_input() const { input_read_.synchronize(); }

private:
    /// A task's results for others.
    struct Result {
        StreamEvent ready;
        Tensors received;  // by a copy: what its receiver reads
    };

    const Task& task_at(TaskIndex task) const { return graph_.tasks()[task]; }
    bool is_awaited(TaskIndex task) const;
    void release(TaskIndex reader, LaneId lane, const StreamEvent& done);
    void release_unshared(TaskIndex reader, LaneId lane, const StreamEvent& done);

    PipelineDevices& devices_;
    const TaskGraph& graph_;
    const bool trains_;
    std::vector<Result> results_;   // per task
    std::vector<Tensors> entered_;  // per micro-batch: its input on the first lane
    StreamEvent input_read_;
};
}  // namespace pipescope
