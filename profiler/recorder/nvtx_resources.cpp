// Names of CUDA devices, contexts, streams and events, and of system resources. They are rare, so they go directly to
// the registry, under its lock.

#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/stream_numbers.h"

#include <nvtx3/nvToolsExtSync.h>

#include <cstring>
#include <optional>

namespace pipescope {
namespace {
void append_utf8(std::string& text, std::uint32_t code) {
    const auto add = [&](std::uint32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
    if (code < 0x80) {
        add(code);
    } else if (code < 0x800) {
        add(0xc0 | code >> 6);
        add(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        add(0xe0 | code >> 12);
        add(0x80 | (code >> 6 & 0x3f));
        add(0x80 | (code & 0x3f));
    } else {
        add(0xf0 | (code >> 18 & 0x07));
        add(0x80 | (code >> 12 & 0x3f));
        add(0x80 | (code >> 6 & 0x3f));
        add(0x80 | (code & 0x3f));
    }
}

std::uint64_t number_of_handle(const void* handle) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
}
std::uint64_t number_of_handle(int device) {
    return static_cast<std::uint64_t>(device);
}

// CUDA handles are plain pointers here, as in NVTX's own tables, so that no CUDA header is needed.

constexpr char kDevice[] = "CUDA device";
constexpr char kContext[] = "CUDA context";
constexpr char kStream[] = "CUDA stream";
constexpr char kEvent[] = "CUDA event";

template <const char* kind, class Handle, class Character>
void name(Handle handle, const Character* text) {
    std::optional<std::uint32_t> stream;
    if constexpr (kind == kStream) {
        const StreamNumber find = stream_number.load(std::memory_order_acquire);
        stream = find == nullptr ? std::nullopt : find(handle);  // now, because it surely exists
    }
    NameRegistry::of_process().name_resource(
        {kind, 0, number_of_handle(handle), std::string(cut_text(utf8(text))), stream});
}

// From nvToolsExtCuda.h and nvToolsExtCudaRt.h, which include cuda.h and are unavailable without CUDA.
constexpr std::uint32_t kCuda = 4U << 16;
constexpr std::uint32_t kCudaRuntime = 5U << 16;

const char* kind_of(std::int32_t type) {
    switch (static_cast<std::uint32_t>(type)) {
        case NVTX_RESOURCE_TYPE_GENERIC_POINTER: return "pointer";
        case NVTX_RESOURCE_TYPE_GENERIC_HANDLE: return "handle";
        case NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE: return "thread";
        case NVTX_RESOURCE_TYPE_GENERIC_THREAD_POSIX: return "pthread";
        case kCuda | 1:
        case kCudaRuntime | 0: return kDevice;
        case kCuda | 2: return kContext;
        case kCuda | 3:
        case kCudaRuntime | 1: return kStream;
        case kCuda | 4:
        case kCudaRuntime | 2: return kEvent;
        case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_MUTEX: return "pthread mutex";
        case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_CONDITION: return "pthread condition";
        case NVTX_RESOURCE_TYPE_SYNC_PTHREAD_RWLOCK: return "pthread rwlock";
        default: return "other";
    }
}

nvtxResourceHandle_t resource_create(nvtxDomainHandle_t domain, nvtxResourceAttributes_t* resource) {
    if (resource == nullptr) {
        return nullptr;
    }
    NameRegistry& registry = NameRegistry::of_process();
    const std::uint64_t identifier = resource->identifier.ullValue;
    const std::string text(cut_text(message_of(*resource)));
    registry.name_resource({kind_of(resource->identifierType), from_handle(domain), identifier, text, std::nullopt});
    if (resource->identifierType == NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE) {
        registry.name_thread(static_cast<std::uint32_t>(identifier), text);
    }
    return to_handle<nvtxResourceHandle_t>(1);  // a non-null handle without data
}
void resource_destroy(nvtxResourceHandle_t) {}  // its name stays in the trace
}  // namespace

std::string_view utf8(const char* text) {
    return text == nullptr ? std::string_view{} : std::string_view(text, strnlen(text, NameRegistry::kLongestText + 1));
}

std::string registered_text(const void* handle) {
    const auto texts = NameRegistry::of_process().after<std::string>(from_handle(handle));
    return texts.empty() ? std::string{} : texts.front();
}

std::string utf8(const wchar_t* wide) {
    std::string text;
    for (; wide != nullptr && *wide != 0 && text.size() <= NameRegistry::kLongestText; ++wide) {
        append_utf8(text, static_cast<std::uint32_t>(*wide));
    }
    return text;
}

void attach_nvtx_resources(const NvtxExportTableCallbacks& callbacks) {
    const NvtxTable core(callbacks, NVTX_CB_MODULE_CORE2);
    core.set(NVTX_CBID_CORE2_DomainResourceCreate, resource_create);
    core.set(NVTX_CBID_CORE2_DomainResourceDestroy, resource_destroy);
    const NvtxTable driver(callbacks, NVTX_CB_MODULE_CUDA);
    driver.set(NVTX_CBID_CUDA_NameCuDeviceA, name<kDevice, int, char>);
    driver.set(NVTX_CBID_CUDA_NameCuDeviceW, name<kDevice, int, wchar_t>);
    driver.set(NVTX_CBID_CUDA_NameCuContextA, name<kContext, void*, char>);
    driver.set(NVTX_CBID_CUDA_NameCuContextW, name<kContext, void*, wchar_t>);
    driver.set(NVTX_CBID_CUDA_NameCuStreamA, name<kStream, void*, char>);
    driver.set(NVTX_CBID_CUDA_NameCuStreamW, name<kStream, void*, wchar_t>);
    driver.set(NVTX_CBID_CUDA_NameCuEventA, name<kEvent, void*, char>);
    driver.set(NVTX_CBID_CUDA_NameCuEventW, name<kEvent, void*, wchar_t>);
    const NvtxTable runtime(callbacks, NVTX_CB_MODULE_CUDART);
    runtime.set(NVTX_CBID_CUDART_NameCudaDeviceA, name<kDevice, int, char>);
    runtime.set(NVTX_CBID_CUDART_NameCudaDeviceW, name<kDevice, int, wchar_t>);
    runtime.set(NVTX_CBID_CUDART_NameCudaStreamA, name<kStream, void*, char>);
    runtime.set(NVTX_CBID_CUDART_NameCudaStreamW, name<kStream, void*, wchar_t>);
    runtime.set(NVTX_CBID_CUDART_NameCudaEventA, name<kEvent, void*, char>);
    runtime.set(NVTX_CBID_CUDART_NameCudaEventW, name<kEvent, void*, wchar_t>);
}
}  // namespace pipescope
