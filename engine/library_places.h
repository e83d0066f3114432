#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// The places to look for a library at run time, in order: this program's folder, its ../lib, and those of the loader.
std::vector<std::filesystem::path> places_of_library(const std::string& name);
}  // namespace pipescope
