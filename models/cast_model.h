#pragma once

#include "engine/layer.h"

#include <optional>
#include <string>

namespace pipescope {
/// The torch type of a profile's dtype name; float32 for tf32. Empty for other names.
std::optional<at::ScalarType> scalar_type(const std::string& dtype);
/// The profile's dtype name of a torch type. Empty if there is none.
std::string dtype_name(at::ScalarType type);

/// Casts a model to another floating-point type: parameters, buffers, inputs and targets. Integers stay. The layer
/// decides the type of tensors it creates itself, such as a mask.
ModelSpec cast_model(ModelSpec model, at::ScalarType type);
}  // namespace pipescope
