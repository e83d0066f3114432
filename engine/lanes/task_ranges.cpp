#include "engine/lanes/task_ranges.h"

#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <mutex>

namespace pipescope {
std::atomic<bool> task_ranges_enabled = false;

namespace {
// Process-wide, as NVTX itself is. Written once by prepare_task_ranges(), read only if the flag is set.
nvtxDomainHandle_t domain = nullptr;
std::array<nvtxStringHandle_t, kNumTaskKinds> kind_names{};
}  // namespace

void prepare_task_ranges() {
    static std::once_flag once;
    std::call_once(once, [] {
        domain = nvtxDomainCreateA("pipescope");
        if (domain == nullptr) {
            return;
        }
        for (int kind = 0; kind < kNumTaskKinds; ++kind) {
            const std::string name(to_string(static_cast<TaskKind>(kind)));
            kind_names[static_cast<std::size_t>(kind)] = nvtxDomainRegisterStringA(domain, name.c_str());
        }
        task_ranges_enabled.store(true, std::memory_order_release);
    });
}

void name_thread_for_profilers(const std::string& name) {
    prepare_task_ranges();  // makes NVTX's first call on one thread; two would race in its start-up
    if (!task_ranges_enabled.load(std::memory_order_acquire)) {
        return;
    }
    nvtxNameOsThreadA(static_cast<std::uint32_t>(syscall(SYS_gettid)), name.c_str());
}

void name_cuda_stream_for_profilers(const void* stream, const std::string& name) {
    if (!task_ranges_enabled.load(std::memory_order_acquire)) {
        return;
    }
    // NVTX_RESOURCE_TYPE_CUDA_STREAM, whose header needs CUDA's: class 4 is the driver's objects, of which 3 is a
    // stream.
    constexpr std::int32_t kCudaStream = (4 << 16) | 3;
    nvtxResourceAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
    attributes.identifierType = kCudaStream;
    attributes.identifier.pValue = stream;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name.c_str();
    nvtxDomainResourceCreate(domain, &attributes);  // permanent, as torch's streams are
}

void TaskRange::push(const TaskKey& key) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = kind_names[static_cast<std::size_t>(key.kind)];
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = pack(key);
    nvtxDomainRangePushEx(domain, &attributes);
}

void TaskRange::pop() {
    nvtxDomainRangePop(domain);
}
}  // namespace pipescope
