#pragma once

// For the files of the handler only: it defines NVTX's macros.
#define NVTX_NO_IMPL  // the types only: the handler must not itself become a source of ranges
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <string>

namespace pipescope {
/// Writes our functions into one of NVTX's tables.
class NvtxTable {
public:
    NvtxTable(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
        if (callbacks.GetModuleFunctionTable(module, &entries_, &size_) == 0) {
            size_ = 0;
        }
    }
    template <class Function>
    void set(unsigned id, Function* function) const {
        if (id < size_ && entries_[id] != nullptr) {
            *entries_[id] = reinterpret_cast<NvtxFunctionPointer>(function);
        }
    }

private:
    NvtxFunctionTable entries_ = nullptr;
    unsigned size_ = 0;
};

// Handles are the numbers of the registry in the clothes of pointers: the hot path looks nothing up.

template <class Handle>
Handle to_handle(std::uint32_t number) {
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
}
template <class Handle>
std::uint32_t from_handle(Handle handle) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle));
}

/// UTF-8, a little more than is kept of a text at most; nothing for null.
std::string to_utf8(const wchar_t* wide);

/// The functions that name streams, events, devices, mutexes and the like; nvtx_resources.cpp.
void attach_nvtx_resources(const NvtxExportTableCallbacks& callbacks);
}  // namespace pipescope
