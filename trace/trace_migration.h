#pragma once

#include <SQLiteCpp/Database.h>

namespace pipescope {
// Every version a trace ever had is read; what each step changed stands in trace_migration.cpp.

/// Makes a trace of an older version look like the current one to this connection's queries. The file is not touched,
/// so a read-only one will do.
void show_as_current(SQLite::Database& db, int version);

/// Rewrites the file itself, its stamp included; true if there was anything to do. One transaction: all of it or none.
bool migrate_to_current(SQLite::Database& db, int version);
}  // namespace pipescope
