#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace pipescope {
class GradientCatcher;

/// The live autograd sub-graph of one micro-batch on one partition.
///
/// It keeps the graph's two ends and neither the input nor the output tensors: what no layer saved is freed as soon as
/// the lanes let go of it. Inputs are no leaves, whose gradient node would hold their storage, but outputs of a node
/// that catches their gradients; so a layer may also change them in place, as in the plain model.
class MicroBatchGraph {
public:
    /// The inputs to compute from: those that require a gradient in new tensors of the same storage, whose gradients
    /// backward() returns. Undefined ones stay so. Call with gradients on.
    Tensors open(const Tensors& inputs);
    /// What was computed from them.
    void close(const Tensors& outputs);

    /// Runs the graph backward in the calling thread, adding to the parameters' .grad, and frees it.
    /// `gradients` belong to the outputs, in their order; undefined where there is none. Returns those of the inputs,
    /// undefined where there is none. Throws EngineError where it reaches the inputs of another graph: a layer kept a
    /// tensor of another micro-batch.
    Tensors backward(Tensors gradients);

private:
    struct End {
        std::shared_ptr<torch::autograd::Node> node;  // null where the output needs no gradient
        std::uint32_t output;
    };
    std::shared_ptr<GradientCatcher> catcher_;  // null until open()
    std::vector<End> ends_;
};
}  // namespace pipescope
