#pragma once

#include "engine/gpipe.h"
#include "engine/layer.h"

#include <cstdint>
#include <memory>

namespace pipescope {
class Pipeline;

/// What a mini-batch runs for.
enum class RunFor {
    values,     ///< nothing is kept for backward
    gradients,  ///< in eval mode: backward may come; no step of training, so in the order of GPipe and not counted
    training,   ///< backward may come, or step(): in the order of the options' schedule, and counted
};

/// One mini-batch on its way through the lanes, and all that lives for it: boundary inputs, sub-graphs, gradients.
///
/// Either forward() and later, perhaps, backward(); or step(). The worker of each lane walks its order of the
/// TaskGraph; copies are made by the sending lane's worker right behind their producer. Destroying a run frees what it
/// holds. Threading: its methods block until the lanes are done; one call at a time. Errors: the first failing task's
/// exception in schedule order, unchanged. A failed run cannot go on.
class StepRun {
public:
    /// Throws EngineError where the input cannot be cut, and UsageError where the schedule does not do for that many
    /// micro-batches; such a call counts as no step.
    StepRun(const std::shared_ptr<Pipeline>& pipeline, const Tensors& input, RunFor purpose);
    ~StepRun();
    StepRun(const StepRun&) = delete;
    StepRun& operator=(const StepRun&) = delete;

    /// The gathered output, detached; requires_grad where backward() takes a gradient.
    Tensors forward();
    /// Gradients of the gathered output in, undefined where there is none; of the input out.
    Tensors backward(const Tensors& output_gradients);
    /// Forward, loss and backward; returns the loss, detached.
    at::Tensor step(const Tensors& target, const GPipe::LossFunction& loss);
    /// Behind step(), once: gradients of the input; undefined where it wants none, or got none.
    Tensors take_input_gradients();
    /// Behind forward() or step(), when the caller's edges to the input were taken: see InputVersions::guard().
    void guard_input(const Tensors& input) const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
