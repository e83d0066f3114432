#pragma once

#include "gui/document/query_tracks.h"
#include "gui/timeline/time_axis_model.h"

#include <QString>

#include <vector>

namespace pipescope {
/// Notes on ranges of a trace and the user's own tracks, in FILE.notes.json beside it; docs/notes-format.md describes
/// the file. The trace itself is never changed. Threading: no shared state.

/// "run.sqlite.notes.json"
QString notesPathOf(const QString& trace);
/// The notes beside the trace, by start; none without such a file. Throws Error for a file that is damaged, of another
/// format or of a later version.
std::vector<TimeMark> readNotes(const QString& trace);
/// The user's own tracks of the trace; none without such a file. Throws like readNotes().
std::vector<QueryTrack> readTracks(const QString& trace);
/// Turns some marks into others.
struct MarksChange {
    std::vector<TimeMark> added;
    std::vector<TimeMark> removed;
};
MarksChange changeBetween(const std::vector<TimeMark>& before, const std::vector<TimeMark>& after);
/// A removed mark that is not there, as someone else removed it, is left out.
std::vector<TimeMark> withChange(std::vector<TimeMark> marks, const MarksChange& change);

/// Replaces the notes in the file; removes the file if nothing is left in it. Throws Error if that fails, and if the
/// present file is none that readNotes() reads: it is kept.
void writeNotes(const QString& trace, const std::vector<TimeMark>& notes);
/// Makes the change from `before` to `after` in the notes that the file has now, so that those of another viewer stay.
/// Returns all notes of the file; a file that is gone is written anew. Throws like writeNotes().
std::vector<TimeMark> changeNotes(const QString& trace, const std::vector<TimeMark>& before,
                                  const std::vector<TimeMark>& after);
/// Replaces the tracks in the file and keeps its notes. Throws like writeNotes().
void writeTracks(const QString& trace, const std::vector<QueryTrack>& tracks);
}  // namespace pipescope
