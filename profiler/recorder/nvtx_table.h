#pragma once

// For the handler's files only: defines NVTX's macros.
#define NVTX_NO_IMPL  // types only: the handler itself must not emit ranges
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <string>

namespace pipescope {
/// Writes our functions into an NVTX table.
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

// Handles are registry numbers cast to pointers, so the hot path needs no lookup.

template <class Handle>
Handle to_handle(std::uint32_t number) {
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
}
template <class Handle>
std::uint32_t from_handle(Handle handle) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle));
}

/// UTF-8, at most slightly longer than the stored length. Empty for null.
std::string to_utf8(const wchar_t* wide);

/// Attaches functions that name streams, events, devices, mutexes and similar objects; nvtx_resources.cpp.
void attach_nvtx_resources(const NvtxExportTableCallbacks& callbacks);
}  // namespace pipescope
