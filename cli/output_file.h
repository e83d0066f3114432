#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string_view>

namespace pipescope {
/// Where a command will write. Throws Error before any work is done if the file exists and `force` is false, if it is
/// a folder, or if its folder is missing or cannot be written.
void check_output(const std::filesystem::path& path, bool force);

/// The same, but for whether the folder can be written.
void check_output_name(const std::filesystem::path& path, bool force);

/// Writes the whole file beside the target and renames it, so that a failure leaves what was there; checks the target
/// first as check_output does. Throws Error if it cannot be written.
void write_output(const std::filesystem::path& path, bool force, const std::function<void(std::ostream&)>& write);
void write_output(const std::filesystem::path& path, bool force, std::string_view text);
}  // namespace pipescope
