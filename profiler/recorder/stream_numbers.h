#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace pipescope {
/// Finds CUPTI's number of a CUDA stream, as in kernels and copies. Empty if CUPTI does not know the stream.
using StreamNumber = std::optional<std::uint32_t> (*)(void* stream);

/// Null unless CUPTI is loaded. Global, since NVTX's functions have no context.
inline std::atomic<StreamNumber> stream_number{nullptr};
}  // namespace pipescope
