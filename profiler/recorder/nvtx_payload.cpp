// The payload extension of NVTX (nvToolsExtPayload.h). An event is named after the schema of its payload, whose bytes
// are not recorded. The extension attaches separately from NVTX itself, through its own symbol.

#include "profiler/recorder/nvtx_events.h"
#include "profiler/recorder/nvtx_handler.h"
#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/registered_names.h"

#include <nvtx3/nvToolsExtPayload.h>

#include <memory>

namespace pipescope {
namespace {
constexpr const char* kNameless = "";

RegisteredNames& schemas() {
    static RegisteredNames& one = *std::make_unique<RegisteredNames>(kNameless).release();
    return one;
}

std::uint64_t register_schema(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t* attributes) {
    if (attributes == nullptr) {
        return 0;
    }
    const auto has = [&](std::uint64_t field) { return (attributes->fieldMask & field) != 0; };
    return schemas().add(utf8(has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME) ? attributes->name : kNameless),
                         has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID) ? attributes->schemaId : 0);
}

/// An enum needs a number just as a schema does, since entries refer to both.
std::uint64_t register_enum(nvtxDomainHandle_t, const nvtxPayloadEnumAttr_t* attributes) {
    if (attributes == nullptr) {
        return 0;
    }
    const bool has_id = (attributes->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID) != 0;
    return schemas().add(kNameless, has_id ? attributes->schemaId : 0);
}

std::uint64_t register_scope(nvtxDomainHandle_t, const nvtxScopeAttr_t* attributes) {
    return attributes == nullptr ? 0 : attributes->scopeId;  // the thread determines where an event belongs
}

void mark_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t* data, std::size_t count) {
    emit_mark(from_handle(domain), PayloadSpan{data, count});
}
int push_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t* data, std::size_t count) {
    return emit_push(from_handle(domain), PayloadSpan{data, count});
}
nvtxRangeId_t start_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t* data, std::size_t count) {
    return emit_start(from_handle(domain), PayloadSpan{data, count});
}
int pop_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t*, std::size_t) {
    return emit_pop(from_handle(domain));
}
void end_payload(nvtxDomainHandle_t, nvtxRangeId_t id, const nvtxPayloadData_t*, std::size_t) {
    emit_end(id);
}
void submit_event(nvtxDomainHandle_t, const nvtxPayloadData_t*, std::size_t) {
    count_deferred_submission();
}
void submit_events(nvtxDomainHandle_t, const nvtxEventBatch_t*) {
    count_deferred_submission();
}
std::uint8_t domain_is_enabled(nvtxDomainHandle_t) {
    return 1;
}
}  // namespace

std::uint32_t name_of(PayloadSpan payload) {
    return schemas().text_of(payload.data == nullptr || payload.count == 0 ? 0 : payload.data->schemaId);
}

int attach_nvtx_extension(nvtxExtModuleInfo_t* module) {
    if (module != nullptr && attach_nvtx_counters(*module) == 1) {
        return 1;
    }
    if (module == nullptr || module->moduleId != NVTX_EXT_PAYLOAD_MODULEID || module->segmentsCount < 1) {
        return 0;
    }
    const nvtxExtModuleSegment_t& slots = module->segments[0];
    set_slot(slots, NVTX3EXT_CBID_nvtxPayloadSchemaRegister, &register_schema);
    set_slot(slots, NVTX3EXT_CBID_nvtxPayloadEnumRegister, &register_enum);
    set_slot(slots, NVTX3EXT_CBID_nvtxScopeRegister, &register_scope);
    set_slot(slots, NVTX3EXT_CBID_nvtxMarkPayload, &mark_payload);
    set_slot(slots, NVTX3EXT_CBID_nvtxRangePushPayload, &push_payload);
    set_slot(slots, NVTX3EXT_CBID_nvtxRangePopPayload, &pop_payload);
    set_slot(slots, NVTX3EXT_CBID_nvtxRangeStartPayload, &start_payload);
    set_slot(slots, NVTX3EXT_CBID_nvtxRangeEndPayload, &end_payload);
    set_slot(slots, NVTX3EXT_CBID_nvtxDomainIsEnabled, &domain_is_enabled);
    set_slot(slots, NVTX3EXT_CBID_nvtxEventSubmit, &submit_event);
    set_slot(slots, NVTX3EXT_CBID_nvtxEventBatchSubmit, &submit_events);
    return 1;
}
}  // namespace pipescope

extern "C" {
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = pipescope::attach_nvtx_extension;
}
