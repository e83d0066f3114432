#pragma once

#include "trace/store/foreign_database.h"
#include "trace/store/trace_writer.h"

#include <filesystem>
#include <string>

namespace pipescope {
/// Creates the file of a new trace with its tables and format stamp, and returns its path. Refuses an existing file or
/// link unless IfExists::replace; then it stays until the new file is complete, and a link's target is never changed.
/// The same holds for the parts of a former trace (trace/store/trace_parts.h). Always refuses a name that is a part of
/// another trace. Throws TraceError.
std::filesystem::path create_trace_file(const std::filesystem::path& target, IfExists if_exists);

/// Throws TraceError if another process has the trace open for writing: two writers of one name would share a
/// write-ahead log and ruin both files.
void require_not_being_written(const std::filesystem::path& path);

/// Merges the write-ahead log into the database and leaves WAL mode, so that a single file holds everything. If a
/// reader has the file open, it stays in WAL mode, but is complete.
void make_plain_file(SQLite::Database& db);

/// Opens a trace for reading in one thread. Waits some seconds for a lock. Throws TraceError, also if its tables are
/// not plain (require_plain_tables()).
ForeignDatabase open_to_read(const std::filesystem::path& path);
/// From now on, this connection reads the file as it is now, even if it grows. Throws SQLite::Exception.
void keep_snapshot(SQLite::Database& db);

/// Throws TraceFormatError unless `path` is a non-empty SQLite file. The message names what the file seems to be.
void require_sqlite_file(const std::filesystem::path& path);
/// Throws TraceFormatError if the file is shorter than its header claims, as after an interrupted copy. SQLite would
/// notice only when it reads a missing page. A file that is being written, or was not closed, passes. Precondition:
/// require_sqlite_file() passes.
void require_whole_file(const std::filesystem::path& path);
/// Format version of the open database. Throws TraceFormatError unless it is a trace of a known version.
int require_trace_format(SQLite::Database& db, const std::filesystem::path& path);
/// True if the content is JSON or gzip, and so not a database.
bool looks_like_json(const std::filesystem::path& path);
}  // namespace pipescope
