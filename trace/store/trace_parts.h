// A trace is more than one file. SQLite keeps its newest steps, and the pages that a transaction replaces, in files
// beside it; the viewer keeps notes there. Programs find these files only by their names. So a file that gets such a
// name becomes a part of the trace, whatever it holds: SQLite then refuses the trace, replays the file into it, or
// deletes it.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace pipescope {
/// Endings of the files that SQLite keeps beside a database: write-ahead log, its index, rollback journal.
inline constexpr std::array<std::string_view, 3> kDatabaseParts = {"-wal", "-shm", "-journal"};
/// How every SQLite database begins.
inline constexpr std::string_view kSqliteHead("SQLite format 3\0", 16);
/// Ending of the viewer's notes on a file.
inline constexpr std::string_view kNotesEnding = ".notes.json";

/// The path of a file beside a trace: the path with another ending.
std::filesystem::path beside(const std::filesystem::path& path, std::string_view ending);

/// Paths of the files that SQLite keeps beside a trace of this name, whether they exist or not.
std::vector<std::filesystem::path> database_parts(const std::filesystem::path& trace);
/// Throws TraceError if one of database_parts() exists: without its trace, it holds the last rows of a killed run. A
/// new trace of that name would destroy it.
void require_no_database_parts(const std::filesystem::path& trace);
/// Removes the database_parts() that exist.
void remove_database_parts(const std::filesystem::path& trace);
/// True if one of database_parts() exists.
bool has_database_parts(const std::filesystem::path& trace);

/// The file that `path` is a part of, or would be: an SQLite file for a name in database_parts(), any file for a name
/// of notes. Empty if there is none.
std::optional<std::filesystem::path> whole_of_part(const std::filesystem::path& path);
/// Throws TraceError if there is a whole_of_part(): an output must not get that name, even if no such file exists.
void require_no_part(const std::filesystem::path& output);

/// True for a regular file that begins like an SQLite database.
bool is_sqlite_file(const std::filesystem::path& path);
}  // namespace pipescope
