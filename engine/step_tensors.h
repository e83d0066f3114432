#pragma once

#include "engine/gradients/micro_batch_graph.h"
#include "engine/input_versions.h"
#include "engine/layer.h"
#include "engine/recompute_inputs.h"
#include "engine/skips/skip_layout.h"
#include "engine/skips/stashed_version.h"
#include "schedule/task_key.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
/// The tensors of one mini-batch on its way through the partitions: the inputs and outputs of every task (i, j).
///
/// Forward: (i, j) takes the input's parts or partition j-1's outputs, and the incoming skips. Backward: the same in
/// reverse, for gradients. A copy task moves its sender's outputs.
/// Threading: none of its own. A task of (i, j) touches only data of (i, j) and leaves results for others; the order of
/// the TaskGraph keeps the two apart.
class StepTensors {
public:
    /// Borrows `skips`. `sizes` are the micro-batches', in samples.
    StepTensors(const SkipLayout& skips, int num_partitions, std::vector<std::int64_t> sizes);

    int num_micro_batches() const noexcept { return static_cast<int>(sizes_.size()); }
    const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }

    /// Cuts the input. With `trains`, remembers which of its tensors require a gradient.
    void set_input(const Tensors& input, bool trains);
    /// A micro-batch's part of the input, until the first partition takes it.
    Tensors& input_part(int micro_batch) { return cell(micro_batch, 0).inputs; }
    InputVersions& input_versions() noexcept { return input_versions_; }
    /// The inputs of (i, j): incoming skips, then the previous partition's outputs. Throws EngineError if a skip was
    /// changed on its way.
    Tensors take_inputs(int micro_batch, int partition);
    /// Inputs of a checkpointed forward, kept until its recompute.
    RecomputeInputs& kept_inputs(int micro_batch, int partition) { return cell(micro_batch, partition).kept; }
    /// Stores the outputs of (i, j) for others: outgoing skips, then the last layer's outputs.
    void put_outputs(int micro_batch, int partition, Tensors outputs);

    MicroBatchGraph& graph(int micro_batch, int partition) { return cell(micro_batch, partition).graph; }

    /// Gradients of (i, j)'s outputs, in the order of put_outputs().
    Tensors take_gradients(int micro_batch, int partition);
    /// Gradients of (i, j)'s inputs, in the order of take_inputs().
    void put_input_gradients(int micro_batch, int partition, Tensors gradients);

    /// The tensors that a copy task moves, in place; entries may be undefined.
    std::span<at::Tensor> moved_by(const TaskKey& copy);

    /// The last partition's outputs of one micro-batch; of all, concatenated.
    Tensors take_outputs(int micro_batch);
    Tensors gather_outputs();
    /// Sets the gradients of one micro-batch's outputs, or of the gathered ones. The latter are cut by the sizes that
    /// each output's parts had.
    void set_output_gradients(int micro_batch, Tensors gradients);
    void set_output_gradients(const Tensors& gradients);
    /// Gradients of the input's tensors that require one, concatenated; undefined for others.
    Tensors gather_input_gradients();

    /// Releases everything after a failed step.
    void clear();

private:
    struct Cell {
        Tensors skips;  // incoming; sized from the start, since several lanes write their own place
        std::vector<StashedVersion> stashed;  // of those
        Tensors inputs;                       // detached; requires_grad if a gradient goes back
        RecomputeInputs kept;                 // skips and inputs, of a checkpointed forward
        Tensors skip_gradients;               // of outgoing skips; sized from the start
        Tensors gradients;                    // of the outputs
        MicroBatchGraph graph;
    };
    Cell& cell(int micro_batch, int partition) {
        return cells_[static_cast<std::size_t>(partition) * sizes_.size() + static_cast<std::size_t>(micro_batch)];
    }
    const PartitionSkips& skips_of(int partition) const { return skips_.of(PartitionId{partition}); }

    const SkipLayout& skips_;
    const int last_partition_;
    const std::vector<std::int64_t> sizes_;
    std::vector<Cell> cells_;
    std::vector<Tensors> outputs_;                         // of the last partition, per micro-batch
    std::vector<std::vector<std::int64_t>> output_sizes_;  // first dimensions of each gathered output's parts
    std::vector<Tensors> input_gradients_;                 // per micro-batch
    Tensors input_;                                        // the input's tensors that require a gradient, detached
    InputVersions input_versions_;
};
}  // namespace pipescope
