#pragma once

#include "engine/device/pipeline_devices.h"
#include "engine/step_tensors.h"
#include "schedule/task_graph.h"

#include <vector>

namespace pipescope {
/// Orders the streams of one step as the TaskGraph orders its tasks, and keeps tensors that cross them alive.
///
/// The gate lets a task start once its dependencies have been *issued*: on a device they may still run. So a task that
/// another lane waits for records an event, and the waiting task makes its stream wait for it. Copies run on the
/// streams of their link, in parallel with both lanes' computation.
/// A received tensor stays referenced until its last reader has passed on the device: the backward, or the forward if
/// nothing else holds the tensor or no backward follows.
/// Used only if a lane is on an accelerator. Threading: as StepTensors; each method on the lane of its task.
class StepStreams {
public:
    /// Borrows devices, graph and tensors.
    StepStreams(PipelineDevices& devices, const TaskGraph& graph, StepTensors& tensors, bool trains);

    /// Before and after the lane issues the task.
    void before(TaskIndex task);
    void after(TaskIndex task);
    /// Sends the copy's tensors and puts the arriving ones in their place.
    void run_copy(TaskIndex copy);

    /// Blocks until the caller's input in host memory has been read, so that the caller may overwrite it.
    void wait_for_input() const;

private:
    /// A task's results for others.
    struct Left {
        StreamEvent ready;
        Tensors received;  // by a copy: what its receiver reads
    };

    const Task& task_at(TaskIndex task) const { return graph_.tasks()[task]; }
    bool is_awaited(TaskIndex task) const;
    void enter(int micro_batch, LaneId lane);
    TaskIndex forward_of(const TaskKey& key) const;
    void release(TaskIndex reader, LaneId lane, const StreamEvent& done);
    void release_unshared(TaskIndex reader, LaneId lane, const StreamEvent& done);

    PipelineDevices& devices_;
    const TaskGraph& graph_;
    StepTensors& tensors_;
    const bool trains_;
    std::vector<Left> left_;        // per task
    std::vector<Tensors> entered_;  // per micro-batch: its input on the first lane
    StreamEvent input_read_;
};
}  // namespace pipescope
