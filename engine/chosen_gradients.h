#pragma once

namespace pipescope {
/// Throws EngineError in a backward that asks for the gradients of chosen tensors alone, as autograd::grad and
/// backward(inputs) do. Called by nodes whose backward adds to every parameter's .grad.
void refuse_chosen_gradients();
}  // namespace pipescope
