#pragma once

#include <cstdint>
#include <optional>

namespace pipescope {
/// CUPTI's number of a CUDA stream, by which kernels and copies name it; nothing where it does not know it.
using StreamNumber = std::optional<std::uint32_t> (*)(void* stream);

/// Who tells the numbers from now on; a global, since NVTX's functions carry no context. Any thread.
void set_stream_number(StreamNumber function);
/// Nothing as long as CUPTI is not loaded. The stream must exist.
std::optional<std::uint32_t> number_of_stream(void* stream);
}  // namespace pipescope
