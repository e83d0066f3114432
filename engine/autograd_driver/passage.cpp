#include "engine/autograd_driver/passage.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace pipescope {
torch::autograd::edge_list gradient_edges(const Tensors& tensors) {
    torch::autograd::edge_list edges;
    for (const at::Tensor& tensor : tensors) {
        edges.push_back(tensor.defined() && tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor)
                                                                   : torch::autograd::Edge());
    }
    return edges;
}

Tensors outputs_of(const std::shared_ptr<torch::autograd::Node>& node, const Tensors& tensors,
                   const std::vector<bool>& differentiable) {
    Tensors outputs;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        outputs.push_back(tensors[k].defined() ? tensors[k].detach() : at::Tensor());
        if (differentiable[k]) {
            torch::autograd::set_history(outputs.back(), node);
        } else {
            node->add_input_metadata(torch::autograd::Node::undefined_input());
        }
    }
    return outputs;
}

Tensors send_through(const std::shared_ptr<Passage>& node, const Tensors& tensors) {
    std::vector<bool> differentiable;
    for (const at::Tensor& tensor : tensors) {
        differentiable.push_back(tensor.defined() && tensor.requires_grad());
    }
    node->set_next_edges(gradient_edges(tensors));
    return outputs_of(node, tensors, differentiable);
}

bool can_carry_gradient(const at::Tensor& tensor) {
    return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

bool any_requires_grad(const Tensors& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); });
}
}  // namespace pipescope
