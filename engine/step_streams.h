#pragma once

#include "engine/pipeline_devices.h"
#include "engine/step_tensors.h"
#include "schedule/task_graph.h"

#include <vector>

namespace pipescope {
/// Orders the streams of one step as the TaskGraph orders its tasks, and keeps what crosses them alive.
///
/// The gate lets a task start once its dependencies have been *issued*: on a device they may still run. So whatever
/// another lane waits for leaves an event, and the task that waits passes the wait on to its stream. Copies run on the
/// streams of their link, beside what both lanes compute.
/// What a lane received stays referenced until the last task that reads it has passed on the device: its backward, or
/// its forward, where nothing else holds on to it or no backward comes.
/// Used only where a lane is on an accelerator. Threading: as StepTensors; each method on the lane of its task.
class StepStreams {
public:
    /// Borrows all three.
    StepStreams(PipelineDevices& devices, const TaskGraph& graph, StepTensors& tensors, bool trains);

    /// Before and after the lane issues the task.
    void before(TaskIndex task);
    void after(TaskIndex task);
    /// Sends what the copy moves and puts what arrives in its place.
    void run_copy(TaskIndex copy);

    /// Blocks until host memory of the caller's input is read, which the caller may then write again.
    void wait_for_input() const;

private:
    /// What a task left for others.
    struct Left {
        StreamEvent ready;
        Tensors received;  // of a copy: what its receiver reads
    };

    const Task& task_at(TaskIndex task) const { return graph_.tasks()[task]; }
    bool is_awaited(TaskIndex task) const;
    void enter(int micro_batch, LaneId lane);
    TaskIndex forward_of(const TaskKey& key) const;
    void let_go(TaskIndex reader, LaneId lane, const StreamEvent& done);
    void let_go_of_unshared(TaskIndex reader, LaneId lane, const StreamEvent& done);

    PipelineDevices& devices_;
    const TaskGraph& graph_;
    StepTensors& tensors_;
    const bool trains_;
    std::vector<Left> left_;        // per task
    std::vector<Tensors> entered_;  // per micro-batch: its input
    StreamEvent input_read_;
};
}  // namespace pipescope
