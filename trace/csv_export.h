#pragma once

#include "trace/opened_trace.h"

#include <iosfwd>
#include <optional>
#include <string_view>

namespace pipescope {
/// What a CSV file has one line of.
enum class CsvTable { tasks, steps, memory, ranges };
std::string_view to_string(CsvTable table);
std::optional<CsvTable> parse_csv_table(std::string_view name);

/// The table with a line of column names first. Times in ns, sizes in bytes; -1 or an empty field where a value has no
/// meaning; texts are quoted where they need it (RFC 4180). Tasks: the measured first, then the simulated.
/// Throws TraceError where the stream fails.
void export_csv(const OpenedTrace& trace, CsvTable table, std::ostream& out);
}  // namespace pipescope
