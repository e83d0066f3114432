#pragma once

#include "engine/layer.h"

#include <optional>
#include <string>

namespace pipescope {
/// torch's type for the name a profile has for it; that of float32 for tf32. Nothing for other names.
std::optional<at::ScalarType> scalar_type(const std::string& dtype);
/// The other way round. Empty for a type that no profile names.
std::string dtype_name(at::ScalarType type);

/// The same model in another floating-point type: parameters, buffers, inputs and targets are cast, whole numbers stay.
/// What a layer makes itself, such as a mask, has the type that the layer gives it.
ModelSpec cast_model(ModelSpec model, at::ScalarType type);
}  // namespace pipescope
