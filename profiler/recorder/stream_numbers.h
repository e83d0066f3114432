#pragma once

#include <cstdint>
#include <optional>

namespace pipescope {
/// CUPTI's number of a CUDA stream, as in kernels and copies. Empty if CUPTI does not know it.
using StreamNumber = std::optional<std::uint32_t> (*)(void* stream);

/// Sets the source of the numbers. Global, since NVTX's functions have no context. Threading: any thread.
void set_stream_number(StreamNumber function);
/// Empty unless CUPTI is loaded. The stream must exist.
std::optional<std::uint32_t> number_of_stream(void* stream);
}  // namespace pipescope
