#pragma once

#include "engine/layer.h"
#include "profiler/layers/layer_bytes.h"
#include "profiler/profile/profile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// Throws UsageError for a model without layers and for sizes that are not ascending integers from 1. Throws Error if
/// the tracking allocator, which measures bytes, is not installed.
void check_model_and_sizes(const ModelSpec& model, const std::vector<std::int64_t>& samples);

/// Bytes of floating-point parameters, by the dtype's name in a profile.
using DtypeBytes = std::map<std::string, Bytes>;
void add_dtypes(const Layer& layer, DtypeBytes& bytes);
/// The dtype with the most bytes; float32 if there are none.
std::string main_dtype(const DtypeBytes& bytes);
/// True if the model's input is integers, such as token numbers.
bool holds_tokens(const Tensors& input);
/// The length of a sequence, if the input is token numbers (batch, sequence); otherwise 0.
std::int64_t tokens_per_sample(const Tensors& input);

/// Name, parameters, gradients (if they exist) and buffers: everything that does not depend on the micro-batch.
LayerProfile described_layer(const std::string& name, const Layer& layer);

/// Appends one micro-batch size, without times. Call in ascending order of sizes: values that a profile stores once for
/// all sizes come from the largest size.
void append_bytes(LayerProfile& profile, const LayerBytes& bytes);

double input_bytes(const Tensors& input);
}  // namespace pipescope
