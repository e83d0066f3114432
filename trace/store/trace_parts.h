// A trace is more than one file: SQLite keeps its newest steps, and what a transaction replaces, in files beside it,
// and the viewer keeps notes there. Programs find them by their names alone. So a file that gets such a name becomes a
// part of the trace, whatever it holds: SQLite then refuses the trace, replays the file into it, or deletes it.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace pipescope {
/// Endings of the files that SQLite keeps beside a database: write-ahead log, its index, rollback journal.
inline constexpr std::array<std::string_view, 3> kDatabaseParts = {"-wal", "-shm", "-journal"};
/// Every SQLite database begins so.
inline constexpr std::string_view kSqliteHead("SQLite format 3\0", 16);
/// Ending of the viewer's notes on a file.
inline constexpr std::string_view kNotesEnding = ".notes.json";

/// The path with an ending: of a file that is kept beside a trace.
std::filesystem::path beside(const std::filesystem::path& path, std::string_view ending);

/// What SQLite keeps beside a trace of this name, whether it exists or not.
std::vector<std::filesystem::path> database_parts(const std::filesystem::path& trace);
/// Throws TraceError if one of database_parts() exists: without its trace, it is what a killed run wrote last. A new
/// trace of that name would take its place.
void require_no_database_parts(const std::filesystem::path& trace);
/// Removes what there is of database_parts().
void remove_database_parts(const std::filesystem::path& trace);
/// True if one of database_parts() exists.
bool has_database_parts(const std::filesystem::path& trace);

/// The file that a file named `path` is a part of, or would be: an SQLite file for a name of database_parts(), any file
/// for one of notes. Empty if there is none.
std::optional<std::filesystem::path> whole_of_part(const std::filesystem::path& path);
/// Throws TraceError if there is a whole_of_part(): an output must not get that name, whether such a file exists or
/// not.
void require_no_part(const std::filesystem::path& output);

/// True for a regular file that begins like an SQLite database.
bool is_sqlite_file(const std::filesystem::path& path);
}  // namespace pipescope
