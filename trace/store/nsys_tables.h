#pragma once

#include "trace/store/opened_trace.h"

#include <SQLiteCpp/Database.h>

namespace pipescope {
/// True if the database has one of the tables that every export of nsys has.
bool has_nsys_tables(SQLite::Database& db);

/// Reads the tables common to nsys exports and our traces into the trace's tracks, counters and start time. Any table
/// and most columns may be missing: versions differ, and nsys creates a table only if it has rows. NVTX texts come from
/// `text` or `textId`, whichever is set.
void read_nsys_tables(SQLite::Database& db, OpenedTrace& trace);

/// Creates slices of trace.measured from ranges of the NVTX domain "pipescope" that carry a packed TaskKey: a run of
/// PipeScope under nsys. The lane is the partition; a backward copy is on the partition that sends it.
void read_nsys_tasks(SQLite::Database& db, OpenedTrace& trace);
}  // namespace pipescope
