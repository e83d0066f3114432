#pragma once

#include <string>

namespace pipescope {
/// Shows `name` for a stream of a CUDA device, given by its CUstream, in NVTX tools: as a resource of the domain
/// "pipescope". No effect while nobody listens; after prepare_task_ranges().
void name_cuda_stream_for_profilers(const void* stream, const std::string& name);
}  // namespace pipescope
