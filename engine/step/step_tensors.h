#pragma once

#include "engine/in_place_checks.h"
#include "engine/input_versions.h"
#include "engine/pipeline.h"
#include "engine/step/by_cell.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pipescope {
/// The tensors of one step between its tasks.
///
/// Task (i, j) is micro-batch i on partition j. Tensors wait in the slot of the task that takes them:
///
///     slot (i, j)                                             slot (i, j+1)
///     inputs, skips ──▶ forward (i, j) ──▶ outputs ── copy ──▶ inputs ──▶ forward (i, j+1) ──▶ ... ──▶ loss
///                          │ graph, or inputs to recompute it from                                      │
///     slot (i, j-1)        ▼                                  slot (i, j)                                ▼
///     gradients ◀── copy ── backward (i, j) ◀───────────────── gradients ◀── backward (i, j+1) ◀── ... ◀─┘
///
/// A skip goes straight to the slot of the task that pops it, past the partitions between; its gradient comes back so.
/// If several partitions of that lane pop it, the first one's task hands it on, and each adds its gradient.
/// A copy changes the tensors in the slot where they wait. If its two ends are in different processes, the sending
/// process has its own slot for the receiving task: the copy takes the tensors from it, and the receiving process puts
/// them into its slot.
/// Threading: only tasks of (i, j) take from its slot; tasks of its neighbours and of its skips' other ends leave
/// there. The TaskGraph keeps the two apart. Methods without a cell run where nothing else uses what they take.
class StepTensors {
public:
    /// Borrows the pipeline. `sizes`: of the micro-batches, in samples. `trains`: a backward may follow.
    StepTensors(Pipeline& pipeline, std::vector<std::int64_t> sizes, bool trains);

    const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }
    int num_micro_batches() const noexcept { return static_cast<int>(sizes_.size()); }

    /// Puts the caller's input, cut, into the slots of partition 0. Throws EngineError if it cannot be cut.
    InputVersions cut_input(const Tensors& input);
    /// The caller's tensors that require a gradient, by their place; others are undefined.
    const Tensors& input() const noexcept { return input_; }
    /// The gradients of the caller's input, once; undefined if it needs or got none.
    Tensors take_input_gradients();

    /// What waits for a forward, without skips: detached; requires_grad if a gradient goes back.
    Tensors& inputs(Cell at) { return slots_[at].inputs; }
    /// Incoming skips, then the previous partition's outputs. Throws EngineError if a skip was changed on its way.
    Tensors take_inputs(Cell at);
    /// `outputs` are the outgoing skips, then the last layer's outputs. Others get them as leaves.
    void leave_outputs(Cell at, const Tensors& outputs, bool may_require_grad);
    /// In the order of leave_outputs().
    Tensors take_output_gradients(Cell at);
    /// In the order of take_inputs(); empty if there is none.
    void leave_input_gradients(Cell at, Tensors gradients);

    /// Puts what such a copy moves into its slot; nothing for other copies.
    void leave_shared(const TaskKey& copy);
    /// Before the partition's first forward: gives what came for it to the copies of shared parameters. Returns what
    /// they had before.
    Tensors take_shared_weights(PartitionId user);
    /// Adds what came by the route to the parameters' gradients.
    void add_shared_gradients(std::size_t route);

    /// The last partition's outputs of one micro-batch, or of all, concatenated.
    Tensors take_outputs(MicroBatchId i);
    Tensors gather_outputs();
    /// The gradients of take_outputs(), or those of gather_outputs(), cut by the sizes that each output's parts had.
    void leave_output_gradients(MicroBatchId i, Tensors gradients);
    void cut_output_gradients(const Tensors& gradients);

    /// The tensors that a copy task moves, in place; entries may be undefined.
    std::span<at::Tensor> moved_by(const TaskKey& copy);
    /// Puts what a copy from another process has brought where its receiver looks for it.
    void put(const TaskKey& copy, Tensors tensors);

    void clear();

private:
    struct Slot {
        Tensors inputs;
        Tensors gradients;  // of the outputs
    };
    /// Apart, so that slots stay small: a task seldom finds its slot in the cache. Sized from the start, since several
    /// lanes write their own places.
    struct SkipSlot {
        Tensors skips;                        // incoming
        std::vector<StashedVersion> stashed;  // of those
        Tensors gradients;                    // of outgoing skips
    };

    PartitionId last_partition() const { return pipeline_.partitions().back().id(); }
    const PartitionSkips& skips_of(PartitionId partition) const { return pipeline_.skips().of(partition); }
    at::Tensor& incoming_skip(MicroBatchId i, std::size_t route);
    void stash(MicroBatchId i, std::size_t route, at::Tensor tensor);
    at::Tensor& outgoing_skip_gradient(MicroBatchId i, std::size_t route);
    void add_skip_gradient(MicroBatchId i, std::size_t route, at::Tensor gradient);

    Pipeline& pipeline_;
    const std::shared_ptr<const MiniBatchSplit> split_;
    const std::vector<std::int64_t> sizes_;
    const bool trains_;

    Tensors input_;
    ByCell<Slot> slots_;
    ByCell<SkipSlot> skip_slots_;                          // empty without skips
    std::vector<Tensors> outputs_;                         // of the last partition, by micro-batch
    std::vector<std::vector<std::int64_t>> output_sizes_;  // of each gathered output's parts, where they are joined
    std::vector<Tensors> input_gradients_;                 // by micro-batch
    std::vector<Tensors> shared_weights_;                  // by route
    std::vector<Tensors> shared_gradients_;                // by route
};
}  // namespace pipescope
