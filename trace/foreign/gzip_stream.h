#pragma once

#include <filesystem>
#include <functional>
#include <istream>
#include <memory>

namespace pipescope {
/// Called with the share of the file's bytes read so far, 0 to 1.
using ReadProgress = std::function<void(double)>;

/// Opens a file for reading and decompresses it if it is gzipped. Calls `progress` every 256 KiB, unless it is empty.
/// Throws TraceError if the file cannot be opened. Reading throws TraceFormatError if the compressed data is damaged.
std::unique_ptr<std::istream> open_maybe_packed(const std::filesystem::path& path, ReadProgress progress = {});
}  // namespace pipescope
