#pragma once

#include "engine/pipeline.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace torch::autograd {
struct Edge;
}

namespace pipescope {
/// The loss of one step: once on the gathered output, or per micro-batch if the schedule requires it.
/// Threading: its methods run on the last partition's lane. Lifetime: borrows the function.
class StepLoss {
public:
    /// Moves the target to the last lane's device. With LossScope::micro_batch it is cut into `sizes` samples like the
    /// input, and the options' reduction or weight combines the losses. Throws EngineError for a target that cannot be
    /// cut and for a weight that is none. `input`: that of the model, as far as it is here and requires gradients;
    /// others are undefined. With replicas and a weight: collective over the processes of their last partitions.
    StepLoss(Pipeline& pipeline, const Tensors& input, const Tensors& target, const LossFunction& function,
             LossScope scope, const std::vector<std::int64_t>& sizes);

    /// run() then throws EngineError if the loss depends on one of these parameters.
    void refuse(std::vector<at::Tensor> parameters) { refused_ = std::move(parameters); }

    /// Computes the loss of the gathered output, or of one micro-batch's output, and goes backward through it. Returns
    /// the gradients of `outputs`, which are leaves; undefined if one needs none. Throws EngineError if the function
    /// returns no value to go backward from, or takes a gradient of the outputs with respect to the model's input.
    Tensors run(std::optional<MicroBatchId> micro_batch, const Tensors& outputs);

    /// The mini-batch's loss, detached, after all run() calls.
    const at::Tensor& value() const noexcept { return value_; }

    /// After all run() calls: the first micro-batch whose mean is nan though another's is not. Nothing on accelerators,
    /// where the loss would have to be waited for.
    std::optional<MicroBatchId> only_nan() const;

private:
    void weigh_samples(const std::vector<std::int64_t>& sizes);
    void weigh(Pipeline& pipeline, const std::vector<Tensors>& targets);
    Tensors without_loss(const Tensors& outputs);
    void look_at_leaves(const at::Tensor& loss);
    std::vector<torch::autograd::Edge> behind_outputs(const Tensors& targets) const;

    Tensors target_;
    const LossFunction& function_;
    std::vector<Tensors> targets_;  // per micro-batch; empty for a loss of the mini-batch
    std::vector<double> shares_;    // of each run() in the mini-batch's loss; empty: each counts wholly
    bool is_empty_ = false;         // all weights are 0
    std::size_t num_without_ = 0;   // run() calls that computed no loss
    std::vector<at::Tensor> refused_;
    Tensors input_;                                  // the model's input tensors that require a gradient
    std::vector<std::size_t> inputs_among_targets_;  // places
    std::vector<Partition*> others_;  // whose forwards may run, checkpointed, while the loss goes backward
    at::Tensor value_;
    std::vector<double> means_;  // per micro-batch, as far as they were computed and weighted
};
}  // namespace pipescope
