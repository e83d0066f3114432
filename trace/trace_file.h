#pragma once

#include "trace/trace_writer.h"

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>

namespace pipescope {
/// Makes the file of a new trace, with its tables and its format stamp, and returns where it really lies (symbolic
/// links followed). A file that is there stays untouched unless IfExists::replace, and then until the new one is
/// complete. Throws TraceError.
std::filesystem::path create_trace_file(const std::filesystem::path& target, IfExists if_exists);

/// Folds the write-ahead log into the database and leaves the WAL mode, so that one file holds everything. Where a
/// reader has the file open it stays in WAL mode, complete all the same.
void make_plain_file(SQLite::Database& db);

/// For one thread to read from; waits some seconds for whoever holds a lock. Throws SQLite::Exception.
SQLite::Database open_to_read(const std::filesystem::path& path);

/// Throws TraceFormatError unless `path` is an SQLite file with something in it; says what it seems to be instead.
void require_sqlite_file(const std::filesystem::path& path);
/// The format version of the open database. Throws TraceFormatError unless it is a trace of a version we know.
int require_trace_format(SQLite::Database& db, const std::filesystem::path& path);
}  // namespace pipescope
