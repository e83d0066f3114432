#pragma once

#include "analysis/time_range.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pipescope {
/// Measures the union of ranges that come sorted by their start: time that several share counts once.
class CoveredTime {
public:
    /// The part of the range that none before it covers.
    std::int64_t add(const TimeRange& range) {
        const std::int64_t added = std::max<std::int64_t>(0, range.end - std::max(end_, range.start));
        end_ = std::max(end_, range.end);
        return added;
    }

private:
    std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
};
}  // namespace pipescope
