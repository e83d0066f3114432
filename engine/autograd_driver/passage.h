#pragma once

#include "engine/layer.h"

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>

// Only for the driver's own sources: what its nodes have in common.

namespace pipescope {
/// A node of the caller's graph that hands tensors on unchanged, and whose backward does something on the way.
/// Its position k is that of tensor k, whether that one takes part or not.
class Passage : public torch::autograd::Node {
public:
    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        pass(gradients);
        return std::move(gradients);
    }

protected:
    /// Called in the thread that autograd runs the node in, with the gradients of the tensors handed on.
    virtual void pass(torch::autograd::variable_list& gradients) = 0;
};

/// A node owned as autograd wants it: freeing a long chain of them must not recurse.
template <class Made, class... Arguments>
std::shared_ptr<Made> make_node(Arguments&&... arguments) {
    return std::shared_ptr<Made>(new Made(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
}

/// Where the gradients of these tensors go; nowhere for those that need none.
torch::autograd::edge_list gradient_edges(const Tensors& tensors);

/// The same storages as outputs of `node`, for tensors that a gradient can reach: all that `differentiable` names.
/// The others are detached. Positions are kept.
Tensors outputs_of(const std::shared_ptr<torch::autograd::Node>& node, const Tensors& tensors,
                   const std::vector<bool>& differentiable);

/// Sends the tensors that require a gradient through `node`; the others pass as they are.
Tensors send_through(const std::shared_ptr<Passage>& node, const Tensors& tensors);

bool can_carry_gradient(const at::Tensor& tensor);
bool any_requires_grad(const Tensors& tensors);
}  // namespace pipescope
