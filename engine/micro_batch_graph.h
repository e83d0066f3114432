#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace pipescope {
/// The live autograd sub-graph of one micro-batch on one partition, from detached inputs to outputs.
///
/// It keeps the graph's ends, not the output tensors: an output that nobody saved is freed as soon as the next
/// partition lets go of it.
class MicroBatchGraph {
public:
    MicroBatchGraph() = default;
    /// `inputs` are leaves; the outputs were computed from them with gradients on.
    MicroBatchGraph(Tensors inputs, const Tensors& outputs);

    /// Runs the graph backward in the calling thread, adding to the parameters' .grad, and frees it.
    /// `gradients` belong to the outputs, in their order; undefined where there is none. Returns those of the inputs,
    /// undefined where there is none.
    Tensors backward(Tensors gradients);

private:
    struct Root {
        std::shared_ptr<torch::autograd::Node> node;  // null where the output needs no gradient
        std::uint32_t output;
    };
    Tensors inputs_;
    std::vector<Root> roots_;
};
}  // namespace pipescope
