#pragma once

#include <string_view>

namespace pipescope {
/// Names of arguments of kernels, copies and fills in files of PyTorch's profiler, which our export uses as well.
namespace work_arguments {
inline constexpr std::string_view kGrid = "grid";    ///< a list of three
inline constexpr std::string_view kBlock = "block";  ///< a list of three
inline constexpr std::string_view kRegisters = "registers per thread";
inline constexpr std::string_view kSharedMemory = "shared memory";
inline constexpr std::string_view kBytes = "bytes";
inline constexpr std::string_view kCollective = "Collective name";
inline constexpr std::string_view kInElements = "In msg nelems";
inline constexpr std::string_view kOutElements = "Out msg nelems";
inline constexpr std::string_view kElementType = "dtype";
inline constexpr std::string_view kGroupSize = "Group size";
inline constexpr std::string_view kGroupRanks = "Process Group Ranks";  ///< a list, or its text
inline constexpr std::string_view kGroupName = "Process Group Name";
}  // namespace work_arguments
}  // namespace pipescope
