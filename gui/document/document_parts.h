#pragma once

#include "gui/document/trace_document.h"

#include <QString>
#include <QStringList>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// What documents of all kinds of files are put together from. What cannot be had becomes a note.

/// What the trace keeps of a run's model name: JSON text of a string.
QString modelName(const std::map<std::string, std::string>& run);
std::shared_ptr<const Profile> profileOf(const std::optional<std::string>& json, QStringList& notes);
/// What the run was configured to be.
std::optional<Simulation> simulateRecorded(const Profile& profile, const std::map<std::string, std::string>& run,
                                           QStringList& notes);
/// Moves the simulation's timeline and memory into the document; returns what compare() wants of it.
Simulation adopt(Simulation simulation, TraceDocument& document);
/// The measured half with a simulation, of the steps that compared_steps.h chooses.
void compareWith(TraceDocument& document, const Simulation& simulation);
void addDrops(const std::vector<DropRecord>& drops, const std::vector<DiagnosticRecord>& diagnostics,
              TraceDocument& document);
/// Tasks that are not drawn.
void addHidden(TraceDocument& document);
/// Of a trace without tasks: notes that its threads and streams are all there is. Throws Error if there are none.
void requireTracks(TraceDocument& document);
/// `own`: a trace of ours, which a killed run may have left unfinished.
[[noreturn]] void refuseEmpty(const QString& path, bool own);
}  // namespace pipescope
