#pragma once

#include "engine/device/step_devices.h"

#include <utility>
#include <vector>

namespace pipescope {
/// Orders the streams of one step as the TaskGraph orders its tasks, and keeps tensors that cross them alive.
///
/// The gate lets a task start once its dependencies have been *launched*: on a device they may still run. So a task
/// that another lane waits for records an event, and the waiting task makes its stream wait for it. Copies run on the
/// streams of their link, in parallel with both lanes' computation.
/// A received tensor stays referenced until its last reader has passed on the device: the backward, or the forward if
/// nothing else holds the tensor or no backward follows.
/// Used if a lane is on an accelerator. Threading: the TaskGraph's order keeps the lanes apart.
class StepStreams final : public StepDevices {
public:
    /// As for step_devices().
    StepStreams(PipelineDevices& devices, const TaskGraph& graph, bool trains);

    void begin(const Tensors& inputs) override { devices_.begin(inputs); }
    /// Also blocks until the caller's input in host memory has been read, so that the caller may overwrite it.
    void end() override;
    void abandon() override { devices_.abandon(); }

    /// The host runs ahead of the device, so the copy overlaps the previous micro-batch.
    void enter(MicroBatchId micro_batch, LaneId lane, Tensors& inputs) override;
    void before(TaskIndex task) override;
    void after(TaskIndex task) override;
    void run_copy(TaskIndex copy, std::span<at::Tensor> moved) override;
    void release(LaneId lane, Tensors read) override;
    StreamEvent send(TaskIndex copy, Tensors sent, const std::function<void(const LaneLink*)>& pack) override;
    Tensors receive(TaskIndex copy, const std::function<Tensors(const LaneLink*)>& unpack) override;

private:
    /// A task's results for others.
    struct Result {
        StreamEvent ready;
        Tensors received;  // by a copy: what its receiver reads
    };

    const Task& task_at(TaskIndex task) const { return graph_.tasks()[task]; }
    bool is_awaited(TaskIndex task) const;
    void release(TaskIndex reader, LaneId lane, const StreamEvent& done);
    void note_read_weights(const Task& copy, const StreamEvent& read);
    void release_unshared(TaskIndex reader, LaneId lane, const StreamEvent& done);

    PipelineDevices& devices_;
    const TaskGraph& graph_;
    const bool trains_;
    std::vector<Result> results_;   // per task
    std::vector<Tensors> entered_;  // per micro-batch: its input on the first lane
    StreamEvent input_read_;
    /// By route of shared parameters: the lane that sent them, and when they have been read.
    std::vector<std::pair<LaneId, StreamEvent>> weights_read_;
};
}  // namespace pipescope
