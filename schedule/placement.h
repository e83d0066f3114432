#pragma once

#include "schedule/ids.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Converts user-given lane numbers, one per partition. Throws UsageError that names the first wrong one: lanes are
/// numbered from 0 without gaps.
std::vector<LaneId> checked_placement(const std::vector<std::int64_t>& lanes);
}  // namespace pipescope
