#pragma once

#include "gui/document/trace_document.h"

#include <QString>

#include <vector>

namespace pipescope {
// What documents of all kinds of files are put together from.

/// Moves the simulation's timeline and memory into the document; returns what compare() wants of it.
Simulation adopt(Simulation simulation, TraceDocument& document);
/// Shows the simulated tasks and the memory that a file without measured tasks holds; does nothing if it holds none.
/// `simulation`: that of its profile and configuration, or null.
void showStored(TraceDocument& document, const Timeline& stored, const std::vector<MemorySample>& memory,
                const Simulation* simulation);
/// Tasks that are not drawn.
void addHidden(TraceDocument& document);
/// Of a trace without tasks: notes that its threads and streams are all there is. Throws Error if there are none.
void requireTracks(TraceDocument& document);
}  // namespace pipescope
