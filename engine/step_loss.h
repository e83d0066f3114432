#pragma once

#include "engine/gpipe.h"
#include "engine/layer.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// The loss of one step: once on the gathered output, or per micro-batch if the schedule requires it.
/// Threading: its methods run on the last partition's lane. Lifetime: borrows target and function.
class StepLoss {
public:
    /// With LossScope::micro_batch the target is cut like the input, and `reduction` combines the losses. Throws
    /// EngineError for a target that cannot be cut.
    StepLoss(const Tensors& target, const GPipe::LossFunction& function, LossScope scope, Reduction reduction,
             const std::vector<std::int64_t>& sizes);

    /// Computes the loss of the gathered output (micro_batch -1) or of one micro-batch's output, and goes backward
    /// through it. Returns the gradients of `outputs`, which are leaves; undefined if one needs none. Throws
    /// EngineError if the function returns no value to go backward from.
    Tensors run(int micro_batch, const Tensors& outputs);

    /// The mini-batch's loss, detached, after all run() calls.
    const at::Tensor& value() const noexcept { return value_; }

private:
    const Tensors& target_;
    const GPipe::LossFunction& function_;
    std::vector<Tensors> targets_;  // per micro-batch; empty for a loss of the mini-batch
    std::vector<double> weights_;   // per micro-batch
    at::Tensor value_;
};
}  // namespace pipescope
