#pragma once

#include "engine/layer.h"

namespace torch::nn {
class Module;
}

namespace pipescope {
// Tensors of a Layer that wraps a torch module.

NamedTensors parameters_of(const torch::nn::Module& module);
NamedTensors buffers_of(const torch::nn::Module& module);
/// Casts floating-point parameters and buffers in place. Not Module::to(dtype): that one casts integer buffers too,
/// such as batch norm's counter.
void cast_floating(const torch::nn::Module& module, at::ScalarType dtype);
}  // namespace pipescope
