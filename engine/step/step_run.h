#pragma once

#include "engine/device/step_streams.h"
#include "engine/first_failure.h"
#include "engine/gradients/micro_batch_graph.h"
#include "engine/in_place_checks.h"
#include "engine/input_versions.h"
#include "engine/lanes/task_gate.h"
#include "engine/pipeline.h"
#include "engine/step_loss.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace at {
class ThreadLocalState;
}

namespace pipescope {
/// One mini-batch on the lanes, with all its state: boundary inputs, sub-graphs, gradients.
///
/// Use either forward() and then perhaps backward(), or step(). Each lane's worker walks its order of the TaskGraph;
/// the sending lane's worker makes the copies right after their producer. Destroying a run frees its memory. Threading:
/// methods block until the lanes are done; one call at a time. Errors: the first failing task's exception in schedule
/// order, unchanged. A failed run cannot continue.
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
    /// One of the overlapping steps of a staggered training, instead of step(). The caller's thread calls begin_step(),
    /// then each lane calls run_step() and the caller's thread end_step(), once every lane has returned.
    void begin_step(const Tensors& target, const LossFunction& loss);
    /// Runs the lane's tasks and then `update`. `before` is the step before this one, which the lane has left, or null;
    /// if it failed, this step ends too. Throws nothing.
    void run_step(LaneId lane, StepRun* before, const std::function<void(LaneId)>& update);
    /// Returns the loss, or throws as step() does.
    at::Tensor end_step();
    /// True once a task has failed. Any thread.
    bool stopped() const noexcept { return gate_.stopped(); }
    /// Gives a new thread to each lane whose own can no longer be used. Call while no lane runs.
    void renew_torn_lanes();
    /// Call after step(), once: gradients of the input; undefined if it needs or got none.
    Tensors take_input_gradients();
    /// Call after forward() or step(), once the caller's edges to the input were taken: see InputVersions::guard().
    void guard_input(const Tensors& input) const { input_versions_.guard(input); }

private:
    enum class Part { forward, backward, all };
    static bool belongs_to(Part part, TaskKind kind);
    static bool moves_in(Part part, TaskKind copy);

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

    /// The tensors that wait for a task (i, j), or that its forward keeps for its backward. Only tasks of (i, j) take
    /// from here; tasks of its neighbours and of its skips' other ends leave here. The TaskGraph keeps the two apart.
    struct Slot {
        Tensors inputs;              // detached; requires_grad if a gradient goes back
        Tensors gradients;           // of the outputs
        std::unique_ptr<Kept> kept;  // of a checkpointed forward
        MicroBatchGraph graph;
    };
    /// What only some runs need: skips, other processes, split backwards. Apart, so that slots stay small, since a task
    /// seldom finds its slot in the cache.
    struct Extras {
        Tensors skips;  // incoming; sized from the start, since several lanes write their own place
        std::vector<StashedVersion> stashed;  // of those
        std::vector<char> shares_skips;       // by place: shares memory with what went to another process
        std::vector<char> shares_inputs;      // likewise; may be shorter
        Tensors skip_gradients;               // of outgoing skips; sized from the start
        LayerMarks marks;                     // of the graph's layers, if the backward is split
        bool has_drawn = false;               // the first half of a split backward drew random numbers
    };

    void cut_input(const Tensors& input);
    void run(Part part);
    void receive(Part part);
    void share_loss();
    void check_kept_outputs();
    void warn_of_nan();
    std::optional<TaskIndex> whole_loss() const;
    void ask_caller();
    [[noreturn]] void rethrow_first_failure();

    bool run_lane(LaneId lane, Part part);
    void run_and_update(LaneId lane, StepRun* before, const std::function<void(LaneId)>& update);
    void update_lane(LaneId lane, const std::function<void()>& update);
    bool run_task(TaskIndex task, bool is_profiled);
    void fail(TaskIndex task, LaneId lane);
    void compute(TaskIndex task, const TaskKey& key);
    void run_forward(Cell at);
    void run_recompute(Cell at);
    void run_loss(const TaskKey& key);
    void run_backward(Cell at, bool is_split);
    void report_kept(Cell at, const Tensors& passed_on);
    void run_backward_weight(Cell at);
    void run_all_reduce(PartitionId partition);
    bool moves_nothing(const Task& copy) const;
    void run_copy(TaskIndex copy);
    void send(TaskIndex copy);
    void deliver(const TaskKey& copy, const ReceivedMessage& message);
    void put(const TaskKey& copy, Tensors tensors, const std::vector<char>& shares);
    char& shares_of_skip(const TaskKey& copy);

    Tensors take_inputs(Cell at);
    void leave_outputs(Cell at, const Tensors& outputs, bool may_require_grad);
    SharedElsewhere shared_elsewhere(Cell at, const Tensors& inputs);
    void note_shared(Cell at, const Tensors& outputs, const SharedElsewhere& inputs);
    Tensors take_output_gradients(Cell at);
    void leave_input_gradients(Cell at, Tensors gradients);
    std::span<at::Tensor> moved_by(const TaskKey& copy);
    Tensors gather_outputs();
    void cut_output_gradients(const Tensors& gradients);

    int num_micro_batches() const noexcept { return static_cast<int>(sizes_.size()); }
    PartitionId last_partition() const { return PartitionId{graph_->shape().num_partitions - 1}; }
    std::size_t place_of_slot(Cell at) const { return at.j.index() * sizes_.size() + at.i.index(); }
    Slot& slot(Cell at) { return slots_[place_of_slot(at)]; }
    Extras& extras(Cell at) { return extras_[place_of_slot(at)]; }
    const PartitionSkips& skips_of(PartitionId partition) const { return pipeline_->skips().of(partition); }
    LayerMarks* marks_of(Cell at) { return splits_ ? &extras(at).marks : nullptr; }
    bool is_checkpointed(MicroBatchId i) const;
    bool has_replicas() const { return graph_->shape().replicas > 1; }
    RandomPlace place_of(MicroBatchId i) const {
        return {pipeline_->options().seed, number_.random_step, among_all_replicas(i)};
    }
    std::uint64_t backward_seed_of(Cell at) const;
    MicroBatchId among_all_replicas(MicroBatchId i) const;
    TaskKey key_of(TaskIndex task) const;

    const std::shared_ptr<Pipeline> pipeline_;
    const std::shared_ptr<const MiniBatchSplit> split_;
    LaneChannels* const channels_;           // null if all lanes are in this process
    const std::vector<std::int64_t> sizes_;  // of the micro-batches, in samples
    const std::shared_ptr<const TaskGraph> graph_;
    const StepNumber number_;
    const bool trains_;                                         // a backward may follow
    const bool splits_;                                         // some backwards, in two tasks
    const std::unique_ptr<const at::ThreadLocalState> caller_;  // grad mode, autocast, inference mode, hooks

    std::vector<Slot> slots_;     // see slot()
    std::vector<Extras> extras_;  // see extras(); empty without skips, other processes and split backwards
    InputVersions input_versions_;
    ParameterVersions parameter_versions_;                 // of forward(), if backward() recomputes
    std::vector<OutputReuse> output_reuse_;                // by partition
    std::vector<OutputReuse> gradient_reuse_;              // by partition
    std::vector<KeptOutputs> kept_outputs_;                // by partition
    std::vector<int> forwards_;                            // by partition: number begun
    std::vector<Tensors> outputs_;                         // of the last partition, by micro-batch
    std::vector<std::vector<std::int64_t>> output_sizes_;  // of each gathered output's parts, where they are joined
    Tensors gathered_output_;                              // of forward()
    std::optional<StepLoss> loss_;                         // of step(), where the last partition is
    at::Tensor total_loss_;                                // of all replicas, where the last partition is
    int num_losses_ = 0;                                   // computed so far
    at::Tensor received_loss_;                             // of step(), elsewhere
    Tensors input_;                                        // the caller's tensors that require a gradient
    std::vector<Tensors> input_gradients_;                 // by micro-batch

    TaskGate gate_;
    std::optional<StepStreams> streams_;  // set if a lane is on an accelerator
    FirstFailure failure_;
    std::exception_ptr interruption_;  // of the options' while_waiting
    std::vector<char> torn_;           // by lane, each writes its own: its thread can no longer be used
};
}  // namespace pipescope
