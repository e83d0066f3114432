#pragma once

#include "engine/gpipe.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A JSON array, as in `run --json` and in a trace: [{"layer": 3, "name": "norm", "in_part": false, "nodes": [..]}].
std::string unsplit_json(const std::vector<UnsplitLayer>& layers);
/// Reads it back.
std::vector<UnsplitLayer> parse_unsplit(std::string_view json);

/// At most two lines, which begin with "not split" and "split in part"; empty if there are no such layers.
std::string unsplit_text(const std::vector<UnsplitLayer>& layers);
}  // namespace pipescope
