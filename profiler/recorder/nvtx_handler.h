#pragma once

#include <cstdint>

struct nvtxExtModuleInfo_t;

namespace pipescope {
/// Gives our functions to NVTX. `get_export_table` is what NVTX passes to a tool (NvtxGetExportTableFunc_t). Returns
/// NVTX's result code: 1, or 0 to decline.
int attach_nvtx_handler(const void* (*get_export_table)(std::uint32_t));
/// Attaches NVTX's payload extension (nvtx_payload.cpp). Returns 1, or 0 for another module.
int attach_nvtx_extension(nvtxExtModuleInfo_t* module);
/// True if NVTX has attached our functions. It does so at the first NVTX call of the program and of each shared
/// library, unless the environment names another tool.
bool nvtx_handler_attached();
/// Number of submissions of events or counters with the program's own clocks, whose times are ignored.
std::int64_t deferred_submissions();
/// Announces that NVTX has called us and is about to get our functions.
void announce_nvtx_handler();
}  // namespace pipescope

// NVTX finds these by name: in exported_handler.cpp, or in inject.cpp for the library that any program can load.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_export_table)(std::uint32_t));
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module);
