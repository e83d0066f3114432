#include "engine/gradients/gradient_needs.h"

#include <algorithm>

namespace pipescope {
bool can_carry_gradient(const at::Tensor& tensor) {
    return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

bool any_requires_grad(const Tensors& tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); });
}
}  // namespace pipescope
