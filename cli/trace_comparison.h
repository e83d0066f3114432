#pragma once

#include "cli/reports.h"

#include <filesystem>

namespace pipescope {
/// Simulates what a recorded trace says it ran and compares the two; warm-up steps are left out. Throws
/// TraceFormatError for a file that is no trace, or that lacks the measured steps, the profile or the configuration.
TraceComparison compare_trace(const std::filesystem::path& path);
}  // namespace pipescope
