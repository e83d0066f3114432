#pragma once

#include <filesystem>
#include <optional>

namespace pipescope {
/// libpipescope_inject.so, which records a program that was not built with PipeScope: in ../lib as seen from this
/// program, or beside it. Nothing if it is in neither.
std::optional<std::filesystem::path> find_inject_library();
/// The same; throws Error where it is missing.
std::filesystem::path require_inject_library();
}  // namespace pipescope
