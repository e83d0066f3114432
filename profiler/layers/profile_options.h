#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Throws UsageError for a model without layers and for sizes that are not ascending whole numbers from 1; Error where
/// the tracking allocator, which bytes are measured by, is not installed.
void check_model_and_sizes(const ModelSpec& model, const std::vector<std::int64_t>& samples);
}  // namespace pipescope
