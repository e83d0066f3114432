#pragma once

#include "engine/gpipe.h"
#include "engine/layer.h"

#include <cstdint>
#include <memory>

namespace pipescope {
class Pipeline;

/// The purpose of a run.
enum class RunFor {
    values,     ///< keeps nothing for backward
    gradients,  ///< in eval mode: backward may follow; no training step, so it runs in GPipe's order and is not counted
    training,   ///< backward or step() may follow: runs in the order of the options' schedule and is counted
};

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
    StepRun(const std::shared_ptr<Pipeline>& pipeline, const Tensors& input, RunFor purpose);
    ~StepRun();
    StepRun(const StepRun&) = delete;
    StepRun& operator=(const StepRun&) = delete;

    /// Returns the gathered output, detached; requires_grad if backward() takes a gradient for it.
    Tensors forward();
    /// Takes the gradients of the gathered output, undefined if there is none; returns those of the input.
    Tensors backward(const Tensors& output_gradients);
    /// Forward, loss and backward; returns the loss, detached.
    at::Tensor step(const Tensors& target, const GPipe::LossFunction& loss);
    /// Call after step(), once: gradients of the input; undefined if it needs or got none.
    Tensors take_input_gradients();
    /// Call after forward() or step(), once the caller's edges to the input were taken: see InputVersions::guard().
    void guard_input(const Tensors& input) const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
