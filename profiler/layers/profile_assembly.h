#pragma once

#include "balance/profile.h"
#include "engine/layer.h"
#include "profiler/layers/layer_bytes.h"

#include <string>

namespace pipescope {
/// Name, parameters, gradients (those that exist) and buffers: all that does not depend on the micro-batch.
LayerProfile described_layer(const std::string& name, const Layer& layer);

/// Appends one micro-batch size, times apart. Sizes come in ascending order: what a profile holds once for all sizes is
/// that of the largest.
void append_bytes(LayerProfile& profile, const LayerBytes& bytes);

double input_bytes(const Tensors& input);
}  // namespace pipescope
