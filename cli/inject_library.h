#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace pipescope {
/// Path of one of PipeScope's libraries: in ../lib beside this program's folder, then in the folder itself.
std::optional<std::filesystem::path> find_own_library(const std::string& name);
/// Path of libpipescope_inject.so, which records programs that were not built with PipeScope. Searched in ../lib
/// relative to this program, and beside it. Empty if not found.
std::optional<std::filesystem::path> find_inject_library();
/// find_inject_library(), but throws Error if it is not found.
std::filesystem::path require_inject_library();
}  // namespace pipescope
