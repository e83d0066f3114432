#pragma once

#include <filesystem>
#include <istream>
#include <memory>

namespace pipescope {
/// Opens a file for reading and decompresses it if it is gzipped. Throws TraceError if the file cannot be opened.
/// Reading throws TraceFormatError if the compressed data is damaged.
std::unique_ptr<std::istream> open_maybe_packed(const std::filesystem::path& path);
}  // namespace pipescope
