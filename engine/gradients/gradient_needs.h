#pragma once

#include "engine/layer.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace pipescope {
// Undefined tensors neither need nor carry a gradient.

inline bool needs_gradient(const at::Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad();
}
inline bool can_carry_gradient(const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_inference() && (tensor.is_floating_point() || tensor.is_complex());
}
inline bool any_requires_grad(const Tensors& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), needs_gradient);
}
/// By tensor, for attach().
inline std::vector<bool> gradient_needs(const Tensors& tensors) {
    std::vector<bool> needs;
    std::transform(tensors.begin(), tensors.end(), std::back_inserter(needs), needs_gradient);
    return needs;
}
}  // namespace pipescope
