#pragma once

#include <string>

namespace pipescope {
/// Shows `name` for a CUDA device's stream, given as its CUstream, in NVTX tools, as a resource of the domain
/// "pipescope". No effect without a tool. Call after prepare_task_ranges().
void name_cuda_stream_for_profilers(const void* stream, const std::string& name);
}  // namespace pipescope
