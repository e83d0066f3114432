#pragma once

namespace pipescope {
/// Throws EngineError in a backward that asks only for the gradients of chosen tensors, as autograd::grad and
/// backward(inputs) do. For nodes whose backward adds to every parameter's .grad.
void refuse_chosen_gradients();
}  // namespace pipescope
