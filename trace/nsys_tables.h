#pragma once

#include "trace/opened_trace.h"

#include <SQLiteCpp/Database.h>

namespace pipescope {
/// Whether the database looks like an export of nsys: it has one of the tables that each export has.
bool has_nsys_tables(SQLite::Database& db);

/// Reads the tables that an export of nsys and our own trace share into the trace's tracks, counters and start time.
/// Any table may be missing, and most columns: versions differ, and nsys makes a table only where it has rows.
/// NVTX texts come from `text`, or through `textId`, whichever is filled.
void read_nsys_tables(SQLite::Database& db, OpenedTrace& trace);

/// Makes slices of trace.measured from the ranges of NVTX domain "pipescope" that carry a packed TaskKey: a run of
/// PipeScope under nsys. A lane is a partition then; a copy backward stands on the partition that sends it.
void read_nsys_tasks(SQLite::Database& db, OpenedTrace& trace);
}  // namespace pipescope
