#pragma once

#include "balance/profile.h"
#include "engine/layer.h"
#include "profiler/layers/layer_bytes.h"

#include <map>
#include <string>

namespace pipescope {
/// Bytes of floating-point parameters, by the dtype's name in a profile.
using DtypeBytes = std::map<std::string, Bytes>;
void add_dtypes(const Layer& layer, DtypeBytes& bytes);
/// The one that most bytes have; float32 where there are none.
std::string main_dtype(const DtypeBytes& bytes);
/// Whether the model's input is whole numbers, as token numbers are.
bool holds_tokens(const Tensors& input);

/// Name, parameters, gradients (those that exist) and buffers: all that does not depend on the micro-batch.
LayerProfile described_layer(const std::string& name, const Layer& layer);

/// Appends one micro-batch size, times apart. Sizes come in ascending order: what a profile holds once for all sizes is
/// that of the largest.
void append_bytes(LayerProfile& profile, const LayerBytes& bytes);

double input_bytes(const Tensors& input);
}  // namespace pipescope
