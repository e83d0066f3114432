#pragma once

#include "trace/store/opened_trace.h"

#include <iosfwd>
#include <optional>
#include <string_view>

namespace pipescope {
/// Tables to export, one line per row.
enum class CsvTable { tasks, steps, memory, ranges };
std::string_view to_string(CsvTable table);
std::optional<CsvTable> parse_csv_table(std::string_view name);

/// Writes the table after a line of column names. Times in ns, sizes in bytes. A value without meaning is -1 or an
/// empty field. Texts are quoted if necessary (RFC 4180). Tasks: measured first, then simulated. Throws TraceError if
/// the stream fails.
void export_csv(const OpenedTrace& trace, CsvTable table, std::ostream& out);
}  // namespace pipescope
