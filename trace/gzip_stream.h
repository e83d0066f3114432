#pragma once

#include <filesystem>
#include <istream>
#include <memory>

namespace pipescope {
/// Opens a file for reading, unpacked on the way if it is packed with gzip. Reading throws
/// TraceFormatError where the packed data is damaged. Throws TraceError if the file cannot be opened.
std::unique_ptr<std::istream> open_maybe_packed(const std::filesystem::path& path);
}  // namespace pipescope
