#include "engine/autograd_driver/dependency.h"

#include "engine/autograd_driver/passage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

namespace pipescope {
namespace {
/// Output 0 is the tensor, output 1 the phony.
class Fork final : public torch::autograd::Node {
public:
    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        return {std::move(gradients[0])};
    }
    std::string name() const override { return "Fork"; }
};

/// Input 0 is the tensor, input 1 the phony, which gets no gradient: being reached is all it is for.
class Join final : public torch::autograd::Node {
public:
    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        return {std::move(gradients[0]), at::Tensor()};
    }
    std::string name() const override { return "Join"; }
};
}  // namespace

at::Tensor phony_beside(const at::Tensor& beside, bool requires_grad) {
    return at::empty({0}, at::TensorOptions().dtype(at::kFloat).device(beside.device()))
        .set_requires_grad(requires_grad);
}

Forked fork(const Tensors& tensors) {
    Forked forked{tensors, at::Tensor()};
    const auto found = std::find_if(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
        return tensor.defined() && tensor.requires_grad();
    });
    if (found == tensors.end() || !at::GradMode::is_enabled()) {
        return forked;
    }
    const auto node = make_node<Fork>();
    node->set_next_edges(gradient_edges({*found}));
    Tensors outputs = outputs_of(node, {*found, phony_beside(*found, false)}, {true, true});
    forked.tensors[static_cast<std::size_t>(found - tensors.begin())] = std::move(outputs[0]);
    forked.phony = std::move(outputs[1]);
    return forked;
}

Tensors join(const Tensors& tensors, const at::Tensor& phony) {
    if (!phony.defined() || !phony.requires_grad() || !at::GradMode::is_enabled()) {
        return tensors;
    }
    Tensors joined = tensors;
    const auto found = std::find_if(joined.begin(), joined.end(), can_carry_gradient);
    if (found != joined.end()) {
        const auto node = make_node<Join>();
        node->set_next_edges(gradient_edges({*found, phony}));
        *found = outputs_of(node, {*found}, {true})[0];
    }
    return joined;
}
}  // namespace pipescope
