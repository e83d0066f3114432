#include "engine/task_ranges.h"

#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <mutex>

namespace pipescope {
std::atomic<bool> task_ranges_enabled = false;

namespace {
// Process-wide, as NVTX itself is. Written once by prepare_task_ranges(), read only where the flag is set.
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
    nvtxNameOsThreadA(static_cast<std::uint32_t>(syscall(SYS_gettid)), name.c_str());
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
