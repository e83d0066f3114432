#pragma once

#include "trace/store/trace_records.h"

#include <cstdint>

namespace pipescope {
/// The clock of the ranges, in ns: CLOCK_MONOTONIC, as in std::chrono::steady_clock. The wall clock would match nsys'
/// times without conversion, but it may be set during a run, and a task could then end before it starts. The clock
/// tuples of a trace relate the two.
std::int64_t recording_clock_ns();

/// Reads all clocks, as close together as possible.
ClockRecord read_clocks();
/// CPU time used by this thread.
std::int64_t thread_cpu_ns();
}  // namespace pipescope
