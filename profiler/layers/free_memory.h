#pragma once

#include "base/ids.h"
#include "engine/layer.h"

#include <c10/core/Device.h>

#include <optional>

namespace pipescope {
/// Memory that this process can still allocate on the device: on the host, what the system and the control group leave;
/// on an accelerator, what its driver reports as free. Empty if unknown.
std::optional<Bytes> free_memory(c10::Device device);

/// Parameters of the whole model, found on the meta device without allocating them. Empty for a model that cannot be
/// created there.
std::optional<Bytes> parameter_bytes_of(const ModelSpec& model);
}  // namespace pipescope
