#pragma once

#include "trace/store/trace_records.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Converts wall-clock times to the recording's clock with the clock tuples of a recording: linear between two tuples,
/// and with the nearest tuple's difference outside.
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
