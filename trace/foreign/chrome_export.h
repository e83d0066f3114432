#pragma once

#include "trace/store/opened_trace.h"

#include <iosfwd>

namespace pipescope {
/// Exports the whole trace as Chrome/Perfetto JSON:
/// - A process per source, with one thread per lane and one for the copies of each sending lane; complete events with
///   the TaskKey in args; flow arrows along the copies.
/// - A process per group of tracks, with one thread per thread or stream; arrows from calls to the kernels they
///   launched.
/// - Memory counters.
///
/// Times are in us with 3 decimals, so no ns is lost. open_trace() restores the trace with two exceptions: ranges that
/// are also tasks are written once, and overlapping ranges of one track return on separate tracks. Throws TraceError if
/// the stream fails.
void export_chrome(const OpenedTrace& trace, std::ostream& out);
}  // namespace pipescope
