#pragma once

#include "base/json_reader.h"
#include "profiler/profile/layer_tape.h"

#include <vector>

namespace pipescope {
/// Reads the `tape` array of a layer: an object or null for each micro-batch size. Defaults: recompute equals forward;
/// checkpointed_forward is forward_that_keeps_nothing(). Throws ProfileError that starts with the path.
std::vector<LayerTape> parse_tapes(const JsonValue<Json>& value);
Json to_json(const std::vector<LayerTape>& tapes);
}  // namespace pipescope
