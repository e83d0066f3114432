#include "recorded_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstdint>

namespace pipescope {
namespace {
nvtxPayloadData_t of_schema(nvtxDomainHandle_t domain, const char* name) {
    static const std::uint64_t bytes = 4096;
    static const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "bytes", nullptr, 0, 0, nullptr, nullptr}};
    nvtxPayloadSchemaAttr_t schema{};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = name;
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = 1;
    schema.payloadStaticSize = sizeof(bytes);
    return {nvtxPayloadSchemaRegister(domain, &schema), sizeof(bytes), &bytes};
}

TEST(Payload, NamesTheExtensionsOwnRangesAndMarks) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    const nvtxPayloadData_t data = of_schema(domain, "send");
    const nvtxPayloadData_t other = of_schema(domain, "receive");
    const RecordedTrace trace([&](Recorder&) {
        nvtxMarkPayload(domain, &data, 1);
        nvtxRangePushPayload(domain, &data, 1);
        nvtxRangePopPayload(domain, &other, 1);
        nvtxRangeEndPayload(domain, nvtxRangeStartPayload(domain, &data, 1), &other, 1);
        EXPECT_EQ(nvtxDomainIsEnabled(domain), 1);
    });
    EXPECT_EQ(trace.text("SELECT group_concat(n) FROM (SELECT text || eventType || ':' || count(*) AS n FROM "
                         "NVTX_EVENTS WHERE eventType IN (34, 59, 60) AND (eventType = 34 OR end NOT NULL) GROUP BY "
                         "eventType, text)"),
              "send34:1,send59:1,send60:1");
}

TEST(Payload, NamesARangeThatHasNoOtherName) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    nvtxPayloadData_t data = of_schema(domain, "send");
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    NVTX_PAYLOAD_EVTATTR_SET_MULTIPLE(event, &data)
    event.reserved0 = 1;
    const RecordedTrace trace([&](Recorder&) {
        nvtxDomainMarkEx(domain, &event);
        event.messageType = NVTX_MESSAGE_TYPE_ASCII;
        event.message.ascii = "exchange";
        nvtxDomainMarkEx(domain, &event);
        const nvtxPayloadData_t unknown{12345, 1, ""};
        nvtxMarkPayload(domain, &unknown, 1);
        nvtxMarkPayload(domain, nullptr, 0);
    });
    EXPECT_EQ(trace.text("SELECT group_concat(text) FROM (SELECT text FROM NVTX_EVENTS WHERE eventType = 34 ORDER BY "
                         "rowid)"),
              "send,exchange,,");
}

TEST(Payload, OfADeferredEventIsMissedWithAWord) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("of deferred events");
    const RecordedTrace trace([&](Recorder&) {
        const nvtxEventBatch_t events{};
        nvtxEventBatchSubmit(domain, &events);
        nvtxEventSubmit(domain, nullptr, 0);
        const nvtxCounterBatch_t samples{};
        nvtxCounterBatchSubmit(domain, &samples);
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 34"), 0);
    EXPECT_THAT(trace.text("SELECT group_concat(severity || ': ' || text) FROM PIPESCOPE_DIAGNOSTIC"),
                testing::HasSubstr("warning: the program submitted 3 events or batches"));
}

TEST(Counter, IsAMarkOfItsNameForEachSample) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("counters");
    const RecordedTrace trace([&](Recorder&) {
        nvtxCounterAttr_t attributes{};
        attributes.structSize = sizeof(attributes);
        attributes.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
        attributes.name = "queue length";
        const std::uint64_t length = nvtxCounterRegister(domain, &attributes);
        attributes.name = "load";
        attributes.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE;
        const std::uint64_t load = nvtxCounterRegister(domain, &attributes);
        attributes.name = "group";
        const nvtxPayloadData_t values = of_schema(domain, "point");
        attributes.schemaId = values.schemaId;
        const std::uint64_t group = nvtxCounterRegister(domain, &attributes);
        nvtxCounterSampleInt64(domain, length, -3);
        nvtxCounterSampleNoValue(domain, length, NVTX_COUNTER_SAMPLE_UNAVAILABLE);
        nvtxCounterSampleNoValue(domain, length, NVTX_COUNTER_SAMPLE_ZERO);
        nvtxCounterSampleFloat64(domain, load, 0.5);
        nvtxCounterSample(domain, group, values.payload, values.size);
    });
    EXPECT_EQ(trace.text("SELECT group_concat(n) FROM (SELECT coalesce(int64Value, 'none') AS n FROM NVTX_EVENTS WHERE "
                         "text = 'queue length' AND eventType = 34 ORDER BY rowid)"),
              "-3,none,0");
    EXPECT_EQ(trace.text("SELECT doubleValue FROM NVTX_EVENTS WHERE text = 'load'"), "0.5");
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'group'"), 1);
}
}  // namespace
}  // namespace pipescope
