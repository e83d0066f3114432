#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// Where to look for a library that is loaded at run time, in this order: in this program's folder, in ../lib of it,
/// and where the loader looks.
std::vector<std::filesystem::path> places_of_library(const std::string& name);
}  // namespace pipescope
