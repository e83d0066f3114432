#pragma once

#include "engine/layer.h"
#include "schedule/ids.h"

#include <c10/core/Device.h>

#include <optional>

namespace pipescope {
/// What a process may still take on the device: of the host what the system and its control group leave, of an
/// accelerator what its driver calls free. Nothing where neither tells.
std::optional<Bytes> free_memory(c10::Device device);

/// Parameters of the whole model, found on the meta device without allocating them. Nothing for a model that cannot be
/// made there.
std::optional<Bytes> parameter_bytes_of(const ModelSpec& model);
}  // namespace pipescope
