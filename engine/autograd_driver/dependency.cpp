#include "engine/autograd_driver/dependency.h"

#include "engine/autograd_driver/graph_node.h"
#include "engine/gradients/gradient_needs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
/// A tensor without elements on the device of `beside`, used only for edges.
at::Tensor phony_beside(const at::Tensor& beside) {
    return at::empty({0}, at::TensorOptions().dtype(at::kFloat).device(beside.device()));
}
}  // namespace

Forked fork(const Tensors& tensors) {
    Forked forked{tensors, at::Tensor()};
    const auto found = std::find_if(tensors.begin(), tensors.end(), needs_gradient);
    if (found == tensors.end() || !at::GradMode::is_enabled()) {
        return forked;
    }
    // Its backward waits for the gradients of both outputs. The phony's only arrives once the join is reached.
    Tensors outputs = attach({"Fork", [](Tensors gradients) { return Tensors{std::move(gradients[0])}; }}, {*found},
                             {*found, phony_beside(*found)}, {true, true});
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
        // The phony gets no gradient; reaching it is enough.
        *found = attach({"Join",
                         [](Tensors gradients) {
                             return Tensors{std::move(gradients[0]), at::Tensor()};
                         }},
                        {*found, phony}, {*found}, {true})[0];
    }
    return joined;
}
}  // namespace pipescope
