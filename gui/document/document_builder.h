#pragma once

#include "gui/document/trace_document.h"
#include "trace/opened_trace.h"

#include <memory>
#include <vector>

namespace pipescope {
// Steps of loading that documents of several kinds of files share.

/// Moves the simulation's timeline and memory into the document; returns the rest, for compareWith().
Simulation adopt(Simulation simulation, TraceDocument& document);
/// Shows the stored simulated tasks and memory of a file without measured tasks; no effect if it has none.
/// `simulation`: that of its profile and configuration, or null.
void showStored(TraceDocument& document, const Timeline& stored, const std::vector<MemorySample>& memory,
                const Simulation* simulation);
/// Adds a note about tasks that are not drawn.
void addHidden(TraceDocument& document);
/// The trace's threads and streams, without ranges that are tasks; null if nothing is left.
std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace);
/// For a trace without tasks: notes that it has only threads and streams. Throws Error if it has none.
void requireTracks(TraceDocument& document);
}  // namespace pipescope
