#pragma once

// For the handler's files only: defines NVTX's macros.
#define NVTX_NO_IMPL  // types only: the handler itself must not emit ranges
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <string>
#include <string_view>

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

/// The text up to the stored length, so that a range named after a large text does not read all of it. Empty for null.
std::string_view utf8(const char* text);
/// At most slightly longer than the stored length. Empty for null.
std::string utf8(const wchar_t* wide);
/// A text that the registry holds, found by NVTX's handle. Empty if there is none.
std::string registered_text(const void* handle);
/// The message of a resource. Empty if there is none.
inline std::string message_of(const nvtxResourceAttributes_t& attributes) {
    switch (attributes.messageType) {
        case NVTX_MESSAGE_TYPE_ASCII: return std::string(utf8(attributes.message.ascii));
        case NVTX_MESSAGE_TYPE_UNICODE: return utf8(attributes.message.unicode);
        case NVTX_MESSAGE_TYPE_REGISTERED: return registered_text(attributes.message.registered);
        default: return {};
    }
}

/// Attaches functions that name streams, events, devices, mutexes and similar objects; nvtx_resources.cpp.
void attach_nvtx_resources(const NvtxExportTableCallbacks& callbacks);
}  // namespace pipescope
