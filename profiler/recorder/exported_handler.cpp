// What NVTX looks up by name in a program that hear_shared_libraries() told it to ask. In a file of its own, since
// libpipescope_inject.so has these functions too, which start a recorder first; a linker that has those leaves this
// file in the archive.

#include "profiler/recorder/nvtx_handler.h"

extern "C" int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
    return pipescope::attach_nvtx_handler(get_export_table);
}

extern "C" int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    return pipescope::attach_nvtx_extension(module);
}
