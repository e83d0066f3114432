#pragma once

#include "engine/device/step_devices.h"
#include "engine/first_failure.h"
#include "engine/gradients/micro_batch_graph.h"
#include "engine/in_place_checks.h"
#include "engine/input_versions.h"
#include "engine/lanes/task_gate.h"
#include "engine/pipeline.h"
#include "engine/step/by_cell.h"
#include "engine/step/step_messages.h"
#include "engine/step/step_tensors.h"
#include "engine/step_loss.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace at {
class ThreadLocalState;
}

namespace pipescope {
/// One mini-batch on the lanes, with all its state.
///
/// Use either forward() and then perhaps backward(), or step(), or the parts of step(). Each lane's worker walks its
/// order of the TaskGraph; the sending lane's worker makes the copies right after their producer. What the step says to
/// other processes goes through StepMessages, and what accelerators need through StepDevices; for one process, and on
/// the host, both do nothing.
/// Ownership: destroying a run frees its memory. Threading: methods block until the lanes are done; one call at a time.
/// Errors: the first failing task's exception in schedule order, unchanged. A failed run cannot continue.
class StepRun {
public:
    /// Throws EngineError if the input cannot be cut, and UsageError if the schedule does not support that many
    /// micro-batches; such a call counts as no step.
    StepRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, RunFor purpose);
    ~StepRun();
    StepRun(const StepRun&) = delete;
    StepRun& operator=(const StepRun&) = delete;

    /// Returns the gathered output, detached; requires_grad if backward() takes a gradient for it.
    Tensors forward();
    /// Takes the gradients of the gathered output, undefined if there is none; returns those of the input.
    Tensors backward(const Tensors& output_gradients);
    /// Forward, loss and backward; returns the loss, detached. `target` counts where the last partition is.
    at::Tensor step(const Tensors& target, const LossFunction& loss);
    /// Call after step(), once: gradients of the input; undefined if it needs or got none.
    Tensors take_input_gradients();
    /// Call after forward() or step(), once the caller's edges to the input were taken: see InputVersions::guard().
    void guard_input(const Tensors& input) const { input_versions_.guard(input); }

    // The parts of step(), for steps that overlap (StaggeredRun): the caller's thread calls set_loss(), each lane
    // on_lane(), and the caller's thread end() and loss_for_caller(), once every lane has returned.

    /// The step throws EngineError if the loss depends on one of the `refused` parameters.
    void set_loss(const Tensors& target, const LossFunction& loss, std::vector<at::Tensor> refused = {});
    /// Calls `work`, such as run_tasks(), on the lane's thread. Throws nothing: an exception ends the step.
    template <class Work>
    void on_lane(LaneId lane, const Work& work) {
        try {
            work();
        } catch (...) {  // between two tasks, such as the device's own error
            fail(graph_->lane_order(lane).front(), lane);
        }
        gate_.leave(lane);
    }
    /// Within on_lane(), before run_tasks(): takes over what is known of the lane's partitions. If `before` has failed,
    /// this step ends too. `before`: the previous step, which the lane has left.
    void follow(StepRun& before, LaneId lane);
    /// Within on_lane(): runs the lane's tasks. Returns false if the step ended early.
    bool run_tasks(LaneId lane, StepHalves halves);
    /// Within on_lane(), after all tasks of the lane: runs its optimizer, for which other lanes need not have ended.
    void run_update(LaneId lane, const std::function<void()>& update);
    /// Throws as step() does.
    void end(StepHalves halves);
    at::Tensor loss_for_caller();

    /// True once a task has failed. Any thread.
    bool stopped() const noexcept { return gate_.stopped(); }
    /// Gives a new thread to each lane whose own can no longer be used. Call while no lane runs.
    void renew_torn_lanes();

private:
    /// Kept by a checkpointed forward for its recompute and backward.
    struct Kept {
        RecomputeInputs inputs;       // skips and inputs
        CheckpointedForward forward;  // all else
    };
    /// While it lives, buffers are as that forward found them. For null, nothing changes.
    class AsInForward {
    public:
        explicit AsInForward(const Kept* kept) {
            if (kept != nullptr) {
                exchange_.emplace(kept->forward.buffers.copies());
            }
        }

    private:
        std::optional<BufferCopies::Exchange> exchange_;
    };
    /// What a forward (i, j) leaves for its backward, or for the recompute and then the backward.
    struct InFlight {
        std::unique_ptr<Kept> kept;  // of a checkpointed forward
        MicroBatchGraph graph;
    };
    /// What the first half of a split backward needs and leaves for the second.
    struct SplitBackward {
        LayerMarks marks;        // of the graph's layers
        bool has_drawn = false;  // random numbers
    };
    /// What is known of a partition in this step. Its lane writes it.
    struct Known {
        OutputReuse outputs;
        OutputReuse gradients;
        KeptOutputs kept_outputs;
        int forwards = 0;  // begun
    };

    void run(StepHalves halves);
    void check_kept_outputs();
    void ask_caller();
    [[noreturn]] void rethrow_first_failure();

    bool run_task(TaskIndex task, bool is_profiled);
    void fail(TaskIndex task, LaneId lane);
    void compute(TaskIndex task, const TaskKey& key);
    void run_forward(Cell at);
    void run_recompute(Cell at);
    void run_loss(const TaskKey& key);
    void run_backward(Cell at, bool is_split);
    void pass_back(Cell at, Tensors gradients);
    void report_kept(Cell at, const Tensors& passed_on);
    void run_backward_weight(Cell at);
    void run_all_reduce(PartitionId partition);
    bool moves_nothing(const Task& copy) const;
    void run_copy(TaskIndex copy);

    int num_micro_batches() const noexcept { return tensors_.num_micro_batches(); }
    LayerMarks* marks_of(Cell at) { return split_backwards_.empty() ? nullptr : &split_backwards_[at].marks; }
    Known& known(PartitionId j) { return known_[j.index()]; }
    bool is_checkpointed(MicroBatchId i) const;
    bool is_split(TaskIndex backward) const { return !split_backwards_.empty() && graph_->is_split(backward); }
    MicroBatchId among_all_replicas(MicroBatchId i) const;
    RandomPlace place_of_random(MicroBatchId i) const {
        return {pipeline_->options().seed, number_.random_step, among_all_replicas(i)};
    }
    std::uint64_t backward_seed_of(Cell at) const;
    TaskKey key_of(TaskIndex task) const;

    const std::shared_ptr<Pipeline> pipeline_;
    const bool trains_;  // a backward may follow
    StepTensors tensors_;
    const std::shared_ptr<const TaskGraph> graph_;
    const StepNumber number_;
    const std::unique_ptr<const at::ThreadLocalState> caller_;  // grad mode, autocast, inference mode, hooks

    ByCell<InFlight> in_flight_;
    ByCell<SplitBackward> split_backwards_;  // empty if the schedule splits none
    std::vector<Known> known_;               // by partition
    InputVersions input_versions_;
    ParameterVersions parameter_versions_;  // of forward(), if backward() recomputes
    Tensors gathered_output_;               // of forward()
    std::optional<StepLoss> loss_;          // of step(), where the last partition is

    TaskGate gate_;
    FirstFailure failure_;
    std::exception_ptr interruption_;  // of the options' while_waiting
    std::vector<char> torn_;           // by lane, each writes its own: its thread can no longer be used
    const std::unique_ptr<StepDevices> devices_;
    const std::unique_ptr<StepMessages> messages_;
};
}  // namespace pipescope
