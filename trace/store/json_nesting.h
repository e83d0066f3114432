#pragma once

#include <cstddef>
#include <string_view>

namespace pipescope {
/// No file of PipeScope nests deeper. nlohmann::json writes values by recursion, so a much deeper value would crash the
/// process.
inline constexpr std::size_t kMostJsonNesting = 64;
/// True if lists and objects of the JSON text nest deeper than that. Cost: O(text).
bool nests_too_deep(std::string_view json);
}  // namespace pipescope
