#pragma once

#include "trace/trace_reader.h"

#include <iosfwd>

namespace pipescope {
/// Chrome/Perfetto JSON of every timeline in the trace: one process per source, one thread per lane and one per sending
/// lane's copies, complete events with the TaskKey in args, flow arrows along the copies, memory counters. Times in us
/// with 3 decimals, so that no ns is lost.
void export_chrome(const TraceReader& trace, std::ostream& out);
}  // namespace pipescope
