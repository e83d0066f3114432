#pragma once

#include "base/ids.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// Converts user-given lane numbers, one per partition. Throws UsageError that names the first wrong one: lanes are
/// numbered from 0 without gaps.
std::vector<LaneId> checked_placement(const std::vector<std::int64_t>& lanes);

/// "0,0,1": the lane of each partition.
std::string placement_text(const std::vector<LaneId>& placement);

/// Deals the partitions out to the lanes in turn: partition j runs on lane j mod `lanes`. Precondition: lanes >= 1.
std::vector<LaneId> placement_in_turn(std::size_t partitions, std::size_t lanes);

/// Two partitions per lane in a V, down the lanes and up again: 0,1,2,2,1,0 for three lanes.
std::vector<LaneId> placement_in_v(std::size_t lanes);

/// In a bidirectional pipeline partition j lies on lanes j and mirrored(j, lanes): the number counted from the other
/// end.
template <class Number>
constexpr Number mirrored(Number number, Number count) {
    return count - 1 - number;
}
}  // namespace pipescope
