#pragma once

#include <cstdint>
#include <string_view>

namespace pipescope {
/// The tables a trace is made of, in one place: what TraceWriter creates, what docs/trace-format.md explains.
/// nsys' tables bear nsys' column names and are ordinary rowid tables without constraints, since its users' scripts
/// select by rowid; ours begin with PIPESCOPE_.
inline constexpr std::string_view kTraceFormatName = "pipescope.trace";
/// Raised when an older reader would misunderstand a newer file; such a reader then refuses it.
inline constexpr int kTraceFormatVersion = 2;
/// Older files than these there are none; all from here on are read (trace_migration.h).
inline constexpr int kOldestTraceFormatVersion = 1;
/// SQLite's application_id, "Pipe" at offset 68 of the file: by it desktops tell a trace from other SQLite files.
inline constexpr std::int32_t kTraceApplicationId = 0x50697065;
/// The nsys export (2024.6.2) whose names and types we follow.
inline constexpr std::string_view kNsysSchemaVersion = "3.16.1";

/// nsys' tables, then ours; several statements. Leaves alone what is there already.
const char* create_tables_sql();
/// Rows of nsys' ENUM_ tables, which its users' scripts join; replaces what is there.
const char* fill_enums_sql();
/// What a trace gets when it is closed: the span it covers, and the indexes, since an index while recording costs a
/// third of the write rate.
const char* finish_tables_sql();
}  // namespace pipescope
