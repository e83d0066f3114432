#pragma once

#include "engine/layer.h"

namespace pipescope {
// Undefined tensors neither need nor carry a gradient.

bool can_carry_gradient(const at::Tensor& tensor);
bool any_requires_grad(const Tensors& tensors);
}  // namespace pipescope
