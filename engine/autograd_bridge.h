#pragma once

#include "engine/layer.h"

#include <memory>
#include <vector>

namespace pipescope {
class StepRun;

/// Makes a run's forward part of the caller's autograd graph, so that backward() on a loss of the output runs its
/// backward phase. Returns `output` (detached tensors, changed in place) with their new history.
///
///     input ──▶ [pipeline: runs the backward phase] ──▶ token ──▶ [gate: keeps the gradients] ──▶ output ──▶ loss
///
/// Two nodes are needed because autograd runs a node on the thread of its output's device. A node that blocks until the
/// lanes are done would block a device's only thread, which the lanes' own backward needs. The token is one element on
/// the CPU, so the blocking node always runs on the thread that called backward().
/// The pipeline's node also leads to `parameters`. A parameter with hooks gets the step's gradient there; others get
/// none, since the lanes have already added theirs. So autograd::grad over parameters alone reaches this node and is
/// refused.
/// Errors, thrown out of backward(): EngineError for a second backward, for create_graph, and for autograd::grad or
/// backward(inputs), which would fill the parameters' .grad unasked.
Tensors attach_to_graph(std::shared_ptr<StepRun> run, const Tensors& input, std::vector<at::Tensor> parameters,
                        Tensors output);

/// Throws EngineError in a backward that asks only for the gradients of chosen tensors, as autograd::grad and
/// backward(inputs) do. For nodes whose backward adds to every parameter's .grad.
void refuse_chosen_gradients();
}  // namespace pipescope
