#include "recorded_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSync.h>

#include <array>
#include <cstring>

namespace pipescope {
namespace {
struct Point {
    float x;
    float y;
};
struct Send {
    std::uint8_t kind;
    std::int32_t peer;
    std::uint64_t bytes;
    const char* name;
    Point at;
    std::uint16_t counts[3];
    char tag[8];
};

nvtxPayloadSchemaEntry_t entry(std::uint64_t type, const char* name, std::uint64_t flags = 0, std::uint64_t detail = 0,
                               std::uint64_t offset = 0) {
    nvtxPayloadSchemaEntry_t made{};
    made.type = type;
    made.name = name;
    made.flags = flags;
    made.arrayOrUnionDetail = detail;
    made.offset = offset;
    return made;
}

template <std::size_t size>
std::uint64_t register_schema(nvtxDomainHandle_t domain, const char* name,
                              const std::array<nvtxPayloadSchemaEntry_t, size>& entries, std::size_t bytes) {
    nvtxPayloadSchemaAttr_t schema{};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = name;
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries.data();
    schema.numEntries = size;
    schema.payloadStaticSize = bytes;
    return nvtxPayloadSchemaRegister(domain, &schema);
}

/// Schemas of "payloads": one in another, with an enum, texts and an array.
struct Schemas {
    Schemas() {
        static const std::array<nvtxPayloadEnum_t, 2> kinds = {{{"eager", 1, 0}, {"rendezvous", 2, 0}}};
        nvtxPayloadEnumAttr_t kind{};
        kind.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
        kind.entries = kinds.data();
        kind.numEntries = kinds.size();
        kind.sizeOfEnum = 1;
        const std::uint64_t kind_id = nvtxPayloadEnumRegister(domain, &kind);
        const std::uint64_t point = register_schema(
            domain, "point",
            std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "x"), entry(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "y")},
            sizeof(Point));
        send = register_schema(
            domain, "send",
            std::array{entry(kind_id, "kind"), entry(NVTX_PAYLOAD_ENTRY_TYPE_INT32, "peer"),
                       entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "bytes"), entry(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "name"),
                       entry(point, "at"),
                       entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT16, "counts", NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, 3),
                       entry(NVTX_PAYLOAD_ENTRY_TYPE_CHAR, "tag", NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, 8)},
            sizeof(Send));
    }
    nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    std::uint64_t send = 0;
};

constexpr const char* kSend =
    R"({"kind":"rendezvous","peer":-3,"bytes":4096,"name":"gradients","at":{"x":0.5,"y":-1.0},)"
    R"("counts":[1,2,3],"tag":"ring"})";

Send filled(const char* name) {
    return {2, -3, 4096, name, {0.5F, -1.0F}, {1, 2, 3}, "ring"};
}

TEST(Payload, IsReadableInTheTraceAsItsSchemaSays) {
    const Schemas schemas;
    const RecordedTrace trace([&](Recorder&) {
        std::string name = "gradients";
        const Send send = filled(name.c_str());
        nvtxPayloadData_t data{schemas.send, sizeof(send), &send};
        nvtxEventAttributes_t event{};
        event.version = NVTX_VERSION;
        event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        event.messageType = NVTX_MESSAGE_TYPE_ASCII;
        event.message.ascii = "exchange";
        NVTX_PAYLOAD_EVTATTR_SET_MULTIPLE(event, &data)
        event.reserved0 = 1;
        nvtxDomainRangePushEx(schemas.domain, &event);
        name = "overwritten before the drain thread comes";
        nvtxDomainRangePop(schemas.domain);
    });
    EXPECT_EQ(trace.text("SELECT jsonText FROM NVTX_EVENTS WHERE text = 'exchange'"), kSend);
    EXPECT_EQ(trace.number("SELECT json_extract(jsonText, '$.bytes') FROM NVTX_EVENTS WHERE text = 'exchange'"), 4096);
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE jsonText NOT NULL"), 1);
}

TEST(Payload, ComesWithTheExtensionsOwnRangesAndMarks) {
    const Schemas schemas;
    const RecordedTrace trace([&](Recorder&) {
        const Send send = filled("gradients");
        const nvtxPayloadData_t data{schemas.send, SIZE_MAX, &send};
        nvtxMarkPayload(schemas.domain, &data, 1);
        nvtxRangePushPayload(schemas.domain, &data, 1);
        nvtxRangePopPayload(schemas.domain, &data, 1);
        nvtxRangeEndPayload(schemas.domain, nvtxRangeStartPayload(schemas.domain, &data, 1), &data, 1);
        EXPECT_EQ(nvtxDomainIsEnabled(schemas.domain), 1);
    });
    EXPECT_EQ(trace.text("SELECT group_concat(n) FROM (SELECT eventType || ':' || count(*) AS n FROM NVTX_EVENTS WHERE "
                         "text = 'send' AND jsonText LIKE '%rendezvous%' GROUP BY eventType)"),
              "34:3,59:1,60:1");
}

TEST(Payload, OfNoRegisteredSchemaIsKeptAsItsBytes) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    const RecordedTrace trace([&](Recorder&) {
        const std::array<unsigned char, 3> bytes = {0x01, 0xab, 0xff};
        const double number = 2.5;
        const std::array<nvtxPayloadData_t, 4> data = {{{12345, bytes.size(), bytes.data()},
                                                        {NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, sizeof(number), &number},
                                                        {NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, SIZE_MAX, "a text"},
                                                        {12345, 8, nullptr}}};
        nvtxMarkPayload(domain, data.data(), data.size());
    });
    EXPECT_EQ(trace.text("SELECT jsonText FROM NVTX_EVENTS WHERE eventType = 34"), R"(["0x01abff",2.5,"a text",null])");
}

TEST(Payload, ThatEndsBeforeItsEntriesLacksThem) {
    const Schemas schemas;
    const RecordedTrace trace([&](Recorder&) {
        const Send send = filled("gradients");
        const nvtxPayloadData_t data{schemas.send, 8, &send};
        nvtxMarkPayload(schemas.domain, &data, 1);
    });
    EXPECT_EQ(trace.text("SELECT jsonText FROM NVTX_EVENTS WHERE eventType = 34"),
              R"({"kind":"rendezvous","peer":-3,"bytes":null,"name":null,"at":null,"counts":null,"tag":null})");
}

TEST(Payload, HoldsArraysBehindPointersOfTheLengthItTells) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    struct Ranks {
        std::uint32_t count;
        const std::int64_t* ranks;
    };
    constexpr auto kBehindPointer = NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY |
                                    NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX;
    const std::uint64_t schema =
        register_schema(domain, "ranks",
                        std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "count"),
                                   entry(NVTX_PAYLOAD_ENTRY_TYPE_INT64, "ranks", kBehindPointer, 0)},
                        sizeof(Ranks));
    const RecordedTrace trace([&](Recorder&) {
        const std::array<std::int64_t, 2> ranks = {7, -8};
        const Ranks payload{2, ranks.data()};
        const nvtxPayloadData_t data{schema, sizeof(payload), &payload};
        nvtxMarkPayload(domain, &data, 1);
    });
    EXPECT_EQ(trace.text("SELECT jsonText FROM NVTX_EVENTS WHERE eventType = 34"), R"({"count":2,"ranks":[7,-8]})");
}

TEST(UserSynchronization, ShowsWhoWaitedAndForWhat) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("locks");
    const RecordedTrace trace([&](Recorder&) {
        nvtxSyncUserAttributes_t attributes{};
        attributes.version = NVTX_VERSION;
        attributes.size = NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE;
        attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
        attributes.message.ascii = "queue";
        const nvtxSyncUser_t lock = nvtxDomainSyncUserCreate(domain, &attributes);
        nvtxDomainSyncUserAcquireStart(lock);
        nvtxDomainSyncUserAcquireFailed(lock);
        nvtxDomainSyncUserAcquireStart(lock);
        nvtxDomainSyncUserAcquireSuccess(lock);
        nvtxDomainSyncUserReleasing(lock);
        nvtxDomainSyncUserDestroy(lock);
    });
    EXPECT_EQ(
        trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'acquire queue' AND eventType = 60 AND end >= "
                     "start"),
        2);
    EXPECT_EQ(trace.text("SELECT group_concat(text) FROM (SELECT text FROM NVTX_EVENTS WHERE eventType = 34 ORDER BY "
                         "start)"),
              "not acquired: queue,release queue");
    EXPECT_EQ(trace.text("SELECT name FROM PIPESCOPE_RESOURCE WHERE kind = 'user synchronization'"), "queue");
}
}  // namespace
}  // namespace pipescope
