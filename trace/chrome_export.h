#pragma once

#include "trace/opened_trace.h"

#include <iosfwd>

namespace pipescope {
/// Chrome/Perfetto JSON of the whole trace: a process per source with one thread per lane and one per sending lane's
/// copies, complete events with the TaskKey in args, flow arrows along the copies; a process per group of tracks with
/// one thread per thread or stream, arrows from calls to the kernels they launched; memory counters. Times in us with 3
/// decimals, so that no ns is lost: open_trace() reads it back as it was, but for ranges that are tasks as well, which
/// are written once, and ranges of one track that overlap, which come back on tracks of their own.
/// Throws TraceError where the stream fails.
void export_chrome(const OpenedTrace& trace, std::ostream& out);
}  // namespace pipescope
