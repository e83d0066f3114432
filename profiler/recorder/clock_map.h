#pragma once

#include "trace/store/trace_records.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Converts wall-clock times to the recording's clock with the clock tuples of a recording: linearly between two
/// tuples, outside by the difference of the nearest one.
class ClockMap {
public:
    /// Add tuples in the order in which they were read.
    void add(const ClockRecord& clocks);
    bool empty() const { return tuples_.empty(); }
    /// `realtime` and the result in ns. Precondition: not empty.
    std::int64_t monotonic_of(std::int64_t realtime) const;

private:
    std::vector<ClockRecord> tuples_;
};
}  // namespace pipescope
