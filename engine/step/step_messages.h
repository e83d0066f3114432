#pragma once

#include "engine/device/step_devices.h"
#include "engine/in_place_checks.h"
#include "engine/lanes/task_gate.h"
#include "engine/pipeline.h"
#include "engine/step/step_tensors.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The tasks of a step that run: all, or only those before or after the loss, which the caller then computes.
enum class StepHalves { forward, backward, both };

/// What a step tells other processes and hears from them. This class is for a step that runs in one process: it tells
/// nobody and hears nothing. RankMessages is for several.
/// Threading: as each part says.
class StepMessages {
public:
    StepMessages() = default;
    virtual ~StepMessages() = default;
    StepMessages(const StepMessages&) = delete;
    StepMessages& operator=(const StepMessages&) = delete;

    // The caller's thread, before and after the lanes run.

    /// From now on, what other processes send reaches its slot and opens its task.
    virtual void begin(StepHalves /*halves*/) {}
    /// Returns once all of it has come, and all that was sent has left. `loss`: if it was computed here.
    virtual void end(const at::Tensor& /*loss*/) {}
    /// The loss that the caller gets. `loss`: as for end().
    virtual at::Tensor loss_for_caller(const at::Tensor& loss) { return loss; }

    // A lane's thread, for one of its tasks.

    /// Says what this process does, in case that it dies.
    virtual void note(const TaskKey& /*key*/) {}
    /// The forward's inputs that share memory with what went elsewhere.
    virtual SharedElsewhere shared_inputs(Cell /*at*/, const Tensors& /*inputs*/) { return {}; }
    /// After the forward: marks what shares memory with what goes elsewhere, for the tasks that take it.
    virtual void mark_shared(Cell /*at*/, const Tensors& /*outputs*/, const SharedElsewhere& /*inputs*/) {}
    /// Sends what a copy to another process moves.
    virtual void send(TaskIndex /*copy*/) {}
    /// A micro-batch's loss, or all of it, has been computed: `loss` is the sum so far.
    virtual void loss_computed(const at::Tensor& /*loss*/, bool /*is_whole*/) {}
    /// Combines the gradients of all replicas, each of which has computed `parameters`' own. Blocks.
    virtual void reduce(LaneId /*lane*/, const std::vector<at::Tensor>& /*parameters*/, Tensors& /*gradients*/) {}

    // Any thread, while an exception is handled.

    /// True if the exception only says that another failure has ended the step, here or elsewhere.
    virtual bool has_told() const { return false; }
    /// Ends the step everywhere because of the exception. `where`: follows this process's name.
    virtual void fail(const std::string& /*where*/) {}
    /// Why the step has ended, if nothing in this process has thrown.
    virtual std::string cause() const { return {}; }
};

/// What messages use of a running step, borrowed.
struct RunningStep {
    Pipeline& pipeline;
    const TaskGraph& graph;
    std::int32_t step;  ///< its number in TaskKeys
    StepTensors& tensors;
    StepDevices& devices;
    TaskGate& gate;
    std::function<void(TaskIndex task, LaneId lane)> fail;  ///< call it while the exception is handled
};
std::unique_ptr<StepMessages> step_messages(const RunningStep& step);

/// Number of samples in the mini-batch of a step that begins. Collective: only the process of partition 0 reads the
/// input. Throws EngineError if the input cannot be cut, and UsageError if the processes call different functions.
std::int64_t samples_of_step(const Pipeline& pipeline, const Tensors& input, RunFor purpose);

/// The task of the gathered output's loss, if the schedule has one.
std::optional<TaskIndex> whole_loss(const TaskGraph& graph);
}  // namespace pipescope
