#pragma once

#include "analysis/time_range.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pipescope {
/// Measures the union of ranges: time that several ranges share counts once. Add the ranges in order of their starts.
class CoveredTime {
public:
    /// Adds a range. Returns the length of its part that no earlier range covers.
    std::int64_t add(const TimeRange& range) {
        const std::int64_t added = std::max<std::int64_t>(0, range.end - std::max(end_, range.start));
        end_ = std::max(end_, range.end);
        return added;
    }

private:
    std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
};
}  // namespace pipescope
