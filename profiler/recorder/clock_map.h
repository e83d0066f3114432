#pragma once

#include "trace/trace_records.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Turns wall-clock times into times of the recording's clock, along the clock tuples of a recording: between two
/// tuples linearly, outside them by the nearest one's difference.
class ClockMap {
public:
    /// Tuples in the order they were read.
    void add(const ClockRecord& clocks);
    bool empty() const { return tuples_.empty(); }
    /// `realtime` and the result in ns. Needs one tuple at least.
    std::int64_t monotonic_of(std::int64_t realtime) const;

private:
    std::vector<ClockRecord> tuples_;
};

/// The farthest two tuples' differences between wall clock and recording clock lie apart, in ns; 0 for none or one.
std::int64_t clock_drift_ns(const std::vector<ClockRecord>& clocks);
}  // namespace pipescope
