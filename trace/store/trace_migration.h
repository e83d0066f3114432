#pragma once

#include <SQLiteCpp/Database.h>

namespace pipescope {
// Traces of all versions can be read. trace_migration.cpp lists the changes.

/// Presents a trace of an older version to this connection in the current format. Does not change the file, so it may
/// be read-only.
void show_as_current(SQLite::Database& db, int version);

/// Converts the file itself, including its stamp, in one transaction. Returns true if a change was necessary.
bool migrate_to_current(SQLite::Database& db, int version);
}  // namespace pipescope
