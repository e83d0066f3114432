#pragma once

#include "trace/trace_records.h"

#include <cstdint>

namespace pipescope {
/// The clock ranges are taken with, in ns: CLOCK_MONOTONIC, which std::chrono::steady_clock reads too. The wall clock
/// would need no conversion to nsys' times, but it may be set while a run goes on, and then a task would end before it
/// started. The clock tuples of a trace tell how the two ran beside each other.
std::int64_t recording_clock_ns();

/// All clocks, read as close to each other as possible.
ClockRecord read_clocks();
/// CPU time this thread has used.
std::int64_t thread_cpu_ns();
}  // namespace pipescope
