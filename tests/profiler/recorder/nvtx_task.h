#pragma once

#include "schedule/task_key.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace pipescope {
/// A task as emitted by the engine: a range of domain "pipescope", a registered string, the key as payload.
class NvtxTask {
public:
    explicit NvtxTask(const TaskKey& key) : domain_(nvtxDomainCreateA("pipescope")) {
        nvtxEventAttributes_t event{};
        event.version = NVTX_VERSION;
        event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        event.message.registered = nvtxDomainRegisterStringA(domain_, std::string(to_string(key.kind)).c_str());
        event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        event.payload.ullValue = pack(key);
        nvtxDomainRangePushEx(domain_, &event);
    }
    ~NvtxTask() { nvtxDomainRangePop(domain_); }
    NvtxTask(const NvtxTask&) = delete;
    NvtxTask& operator=(const NvtxTask&) = delete;

private:
    nvtxDomainHandle_t domain_;
};
}  // namespace pipescope
