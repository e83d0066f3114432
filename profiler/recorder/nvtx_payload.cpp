// The payload extension of NVTX (nvToolsExtPayload.h): schemas and enums registered by a program, and events with data
// of these types. It attaches separately from NVTX itself, through its own symbol.

#include "profiler/recorder/nvtx_events.h"
#include "profiler/recorder/nvtx_handler.h"
#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/payload_schemas.h"

#include <nvtx3/nvToolsExtPayload.h>

#include <string>

namespace pipescope {
namespace {
std::string text_of(const char* text) {
    return text == nullptr ? std::string{} : std::string(text);
}

std::uint64_t register_schema(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t* attributes) {
    if (attributes == nullptr || attributes->entries == nullptr) {
        return 0;
    }
    const auto has = [&](std::uint64_t field) { return (attributes->fieldMask & field) != 0; };
    PayloadSchema schema;
    schema.name = has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME) ? text_of(attributes->name) : std::string{};
    schema.size = has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE) ? attributes->payloadStaticSize : 0;
    schema.align = has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT) ? attributes->packAlign : 0;
    schema.is_union = attributes->type == NVTX_PAYLOAD_SCHEMA_TYPE_UNION ||
                      attributes->type == NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR;
    for (std::size_t k = 0; k < attributes->numEntries; ++k) {
        const nvtxPayloadSchemaEntry_t& entry = attributes->entries[k];
        schema.entries.push_back(
            {entry.type, entry.flags, text_of(entry.name), entry.arrayOrUnionDetail, entry.offset});
    }
    const bool has_id = has(NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
    return PayloadSchemas::of_process().add(std::move(schema), has_id ? attributes->schemaId : 0);
}

std::uint64_t register_enum(nvtxDomainHandle_t, const nvtxPayloadEnumAttr_t* attributes) {
    if (attributes == nullptr || attributes->entries == nullptr) {
        return 0;
    }
    PayloadEnum values;
    values.name = text_of(attributes->name);
    values.size = attributes->sizeOfEnum;
    for (std::size_t k = 0; k < attributes->numEntries; ++k) {
        const nvtxPayloadEnum_t& entry = attributes->entries[k];
        values.values.emplace_back(text_of(entry.name), entry.value);
        values.are_flags = values.are_flags || entry.isFlag != 0;
    }
    const bool has_id = (attributes->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID) != 0;
    return PayloadSchemas::of_process().add(std::move(values), has_id ? attributes->schemaId : 0);
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
// A payload given at a range's end becomes a mark there: a row has one payload, that of the start.
int pop_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t* data, std::size_t count) {
    emit_mark(from_handle(domain), PayloadSpan{data, count});
    return emit_pop(from_handle(domain));
}
void end_payload(nvtxDomainHandle_t domain, nvtxRangeId_t id, const nvtxPayloadData_t* data, std::size_t count) {
    emit_mark(from_handle(domain), PayloadSpan{data, count});
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

EventPayload payload_of(const nvtxPayloadData_t* data, std::size_t count) {
    PayloadSchemas& schemas = PayloadSchemas::of_process();
    EventPayload payload;
    std::string json;
    for (std::size_t k = 0; data != nullptr && k < count; ++k) {
        json += (k == 0 ? "" : ",") + schemas.to_json(data[k].schemaId, data[k].payload, data[k].size);
        if (payload.name.empty()) {
            payload.name = schemas.name_of(data[k].schemaId);
        }
    }
    payload.number = schemas.keep(count == 1 ? std::move(json) : "[" + json + "]");
    return payload;
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
