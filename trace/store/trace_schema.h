#pragma once

#include <cstdint>
#include <string_view>

namespace pipescope {
/// The tables of a trace, as created by TraceWriter and explained in docs/trace-format.md. Tables that nsys has too
/// keep nsys' column names, and are plain rowid tables without constraints, because scripts of nsys users select by
/// rowid. All other tables start with PIPESCOPE_.
inline constexpr std::string_view kTraceFormatName = "pipescope.trace";
/// Raise it if an older reader would misunderstand a newer file. Such a reader refuses the file.
inline constexpr int kTraceFormatVersion = 2;
/// The oldest version that exists. All versions from here on can be read (trace_migration.h).
inline constexpr int kOldestTraceFormatVersion = 1;
/// SQLite's application_id, "Pipe" at offset 68 of the file. Desktops use it to tell a trace from other SQLite files.
inline constexpr std::int32_t kTraceApplicationId = 0x50697065;
/// Version of the nsys export (2024.6.2) whose names and types we follow.
inline constexpr std::string_view kNsysSchemaVersion = "3.16.1";

/// Statements that create nsys' tables, then ours. Leave existing tables unchanged.
const char* create_tables_sql();
/// Statements that fill nsys' ENUM_ tables, which scripts of nsys users join. Replace existing rows.
const char* fill_enums_sql();
/// Tables that only traces joined from other programs' files have.
const char* event_tables_sql();
/// Statements that close a trace: the covered time span and the indexes. Indexes during recording would cost a third of
/// the write rate.
const char* finish_tables_sql();
}  // namespace pipescope
