#include "engine/micro_batch_graph.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace pipescope {
MicroBatchGraph::MicroBatchGraph(Tensors inputs, const Tensors& outputs) : inputs_(std::move(inputs)) {
    for (const at::Tensor& output : outputs) {
        if (output.requires_grad()) {
            torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(output);
            roots_.push_back({std::move(edge.function), edge.input_nr});
        } else {
            roots_.push_back({nullptr, 0});
        }
    }
}

Tensors MicroBatchGraph::backward(Tensors gradients) {
    torch::autograd::edge_list ends;
    torch::autograd::variable_list end_gradients;
    for (std::size_t k = 0; k < roots_.size() && k < gradients.size(); ++k) {
        if (roots_[k].node && gradients[k].defined()) {
            ends.emplace_back(std::move(roots_[k].node), roots_[k].output);
            end_gradients.push_back(std::move(gradients[k]));
        }
    }
    roots_.clear();
    gradients.clear();
    if (!ends.empty()) {
        // Not torch::autograd::backward(): it wants the output tensors, which are gone.
        torch::autograd::Engine::get_default_engine().execute(ends, end_gradients, /*keep_graph=*/false,
                                                              /*create_graph=*/false, /*accumulate_grad=*/true);
    }
    Tensors input_gradients;
    for (const at::Tensor& input : inputs_) {
        // A leaf's grad is taken, not copied: the leaf goes now.
        input_gradients.push_back(input.requires_grad() ? std::exchange(input.mutable_grad(), at::Tensor())
                                                        : at::Tensor());
    }
    inputs_.clear();
    return input_gradients;
}
}  // namespace pipescope
