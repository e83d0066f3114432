#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
/// The text of a file that a user named. `what` it should be, such as "a profile", and the `remedy` are for the
/// message. Throws ProfileError, which starts with the path, for a folder, and for a file that cannot be read or is
/// empty.
std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::string_view remedy);
}  // namespace pipescope
