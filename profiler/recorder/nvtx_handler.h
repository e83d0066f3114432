#pragma once

#include <cstdint>

struct nvtxExtModuleInfo_t;

namespace pipescope {
/// Gives NVTX our functions. `get_export_table` is what NVTX passes to a tool (NvtxGetExportTableFunc_t); returns what
/// it expects of one: 1, or 0 for "leave me out".
int attach_nvtx_handler(const void* (*get_export_table)(std::uint32_t));
/// The same for NVTX's payload extension (nvtx_payload.cpp); 0 for a module that is none.
int attach_nvtx_extension(nvtxExtModuleInfo_t* module);
/// Whether NVTX has handed its functions to us: it does so at the program's first NVTX call, once per executable and
/// shared library, unless the environment names another tool.
bool nvtx_handler_attached();
/// How often the program has handed over events or counters with times of its own clocks, which are not taken.
std::int64_t deferred_submissions();
/// Says so beforehand: NVTX has called us and is about to get our functions.
void announce_nvtx_handler();
}  // namespace pipescope

// NVTX finds these by name; exported_handler.cpp, and inject.cpp in the library that is loaded into any program.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_export_table)(std::uint32_t));
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module);
