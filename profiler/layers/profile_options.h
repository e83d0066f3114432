#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Throws UsageError for a model without layers and for sizes that are not ascending integers from 1. Throws Error if
/// the tracking allocator, which measures bytes, is not installed.
void check_model_and_sizes(const ModelSpec& model, const std::vector<std::int64_t>& samples);
}  // namespace pipescope
