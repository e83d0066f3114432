// The functions that NVTX looks up by name after attach_shared_libraries(). libpipescope_inject.so has different
// versions of them, which start a recorder first. A separate file lets a linker that finds those versions leave this
// one in the archive.

#include "profiler/recorder/nvtx_handler.h"

extern "C" int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
    return pipescope::attach_nvtx_handler(get_export_table);
}

extern "C" int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    return pipescope::attach_nvtx_extension(module);
}
