#pragma once

#include "trace/opened_trace.h"

#include <filesystem>

namespace pipescope {
/// Reads a Chrome trace, packed with gzip or not: PipeScope's own export comes back as the trace it was made of, JSON
/// of PyTorch's profiler and any other as tracks and counters. A profile is recognised too. Errors: those of
/// open_trace().
OpenedTrace import_chrome(const std::filesystem::path& path);

/// What PipeScope's export says of itself under "otherData".
inline constexpr const char* kChromeExportFormat = "pipescope.chrome";
/// Raised when an older import would misunderstand a newer export.
inline constexpr int kChromeExportVersion = 1;
}  // namespace pipescope
