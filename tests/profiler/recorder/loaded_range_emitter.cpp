#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstdint>
#include <thread>

// A library like NCCL: its own domain, a category, a registered name, a payload with a schema, and ranges of its own
// threads and across threads.

namespace {
struct Transfer {
    std::uint64_t bytes;
};

std::uint64_t register_transfer(nvtxDomainHandle_t domain) {
    static const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "bytes", nullptr, 0, 0, nullptr, nullptr}};
    nvtxPayloadSchemaAttr_t schema{};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = "transfer";
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = 1;
    schema.payloadStaticSize = sizeof(Transfer);
    return nvtxPayloadSchemaRegister(domain, &schema);
}
}  // namespace

extern "C" __attribute__((visibility("default"))) void emit_from_loaded_library() {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("loaded library");
    nvtxDomainNameCategoryA(domain, 4, "collective");
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.category = 4;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = nvtxDomainRegisterStringA(domain, "all-reduce");
    const Transfer transfer{4096};
    const nvtxPayloadData_t data{register_transfer(domain), sizeof transfer, &transfer};
    NVTX_PAYLOAD_EVTATTR_SET(&event, data.schemaId, &transfer, sizeof transfer);
    nvtxDomainRangePushEx(domain, &event);
    nvtxMarkPayload(domain, &data, 1);
    nvtxDomainRangePop(domain);
    const nvtxRangeId_t across = nvtxRangeStartA("across threads");
    std::thread([across] { nvtxRangeEnd(across); }).join();
}
