#include "recorded_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
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
                              const std::array<nvtxPayloadSchemaEntry_t, size>& entries, std::size_t bytes,
                              std::uint64_t type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC) {
    nvtxPayloadSchemaAttr_t schema{};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = name;
    schema.type = type;
    schema.entries = entries.data();
    schema.numEntries = size;
    schema.payloadStaticSize = bytes;
    return nvtxPayloadSchemaRegister(domain, &schema);
}

/// Nested schemas in domain "payloads", with an enum, texts and an array.
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

/// JSON of a mark with these bytes as payload.
template <class Bytes>
std::string json_of(nvtxDomainHandle_t domain, std::uint64_t schema, const Bytes& bytes) {
    const RecordedTrace trace([&](Recorder&) {
        const nvtxPayloadData_t data{schema, sizeof(bytes), &bytes};
        nvtxMarkPayload(domain, &data, 1);
    });
    return trace.text("SELECT jsonText FROM NVTX_EVENTS WHERE eventType = 34");
}

TEST(Payload, HoldsHalfPrecisionAsNumbers) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    constexpr auto kThree = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE;
    const std::uint64_t schema = register_schema(domain, "halves",
                                                 std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16, "half", kThree, 3),
                                                            entry(NVTX_PAYLOAD_ENTRY_TYPE_BF16, "brain", kThree, 3)},
                                                 12);
    // 1 + 2^-10, -2, the smallest above zero; 1, -2, 3.140625
    const std::array<std::uint16_t, 6> numbers = {0x3c01, 0xc000, 0x0001, 0x3f80, 0xc000, 0x4049};
    EXPECT_EQ(json_of(domain, schema, numbers),
              R"({"half":[1.0009765625,-2.0,5.960464477539063e-08],"brain":[1.0,-2.0,3.140625]})");
}

TEST(Payload, ShowsOfAUnionTheMemberThatItsSelectorNames) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    struct Tagged {
        std::uint32_t which;
        union {
            float number;
            std::uint32_t bits;
        };
    };
    const std::uint64_t members = register_schema(
        domain, "members",
        std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "number"), entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "bits")}, 4,
        NVTX_PAYLOAD_SCHEMA_TYPE_UNION);
    const std::uint64_t schema = register_schema(
        domain, "tagged", std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "which"), entry(members, "value", 0, 0)}, 8);
    Tagged tagged{0, {1.5F}};
    EXPECT_EQ(json_of(domain, schema, tagged), R"({"which":0,"value":{"number":1.5}})");
    tagged = {1, {}};
    tagged.bits = 7;
    EXPECT_EQ(json_of(domain, schema, tagged), R"({"which":1,"value":{"bits":7}})");
    tagged.which = 2;  // names none: both stand there
    EXPECT_THAT(json_of(domain, schema, tagged), testing::HasSubstr(R"("bits":7)"));
}

TEST(Payload, HoldsTextsAndWhatFollowsThem) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    const std::uint64_t schema = register_schema(
        domain, "texts",
        std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "fixed", 0, 4),
                   entry(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "open", NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED),
                   entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "length"),
                   entry(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "told", NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX, 2),
                   entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "numbers", NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED),
                   entry(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "last")},
        0, NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC);
    const std::array<char, 17> bytes = {'f', 'o', 'u', 'r', 'o', 'p', 'e', 'n', 0, 2, 'a', 'b', 8, 9, 0, 77, 0};
    EXPECT_EQ(json_of(domain, schema, bytes),
              R"({"fixed":"four","open":"open","length":2,"told":"ab","numbers":[8,9],"last":77})");
}

TEST(Payload, ReadsWideTexts) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    struct Wide {
        const char16_t* narrow;
        const char32_t* wide;
    };
    const std::uint64_t schema = register_schema(domain, "wide",
                                                 std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16, "utf16"),
                                                            entry(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32, "utf32")},
                                                 sizeof(Wide));
    EXPECT_EQ(json_of(domain, schema, Wide{u"zw\u00f6lf \U0001f600", U"\u03c0"}),
              "{\"utf16\":\"zw\u00f6lf \U0001f600\",\"utf32\":\"\u03c0\"}");
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
        attributes.name = "place";
        attributes.schemaId = register_schema(
            domain, "point",
            std::array{entry(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "x"), entry(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "y")},
            sizeof(Point));
        const std::uint64_t place = nvtxCounterRegister(domain, &attributes);
        nvtxCounterSampleInt64(domain, length, -3);
        nvtxCounterSampleNoValue(domain, length, NVTX_COUNTER_SAMPLE_UNAVAILABLE);
        nvtxCounterSampleNoValue(domain, length, NVTX_COUNTER_SAMPLE_ZERO);
        nvtxCounterSampleFloat64(domain, load, 0.5);
        const Point at{1, 2};
        nvtxCounterSample(domain, place, &at, sizeof(at));
    });
    EXPECT_EQ(trace.text("SELECT group_concat(n) FROM (SELECT coalesce(int64Value, 'none') AS n FROM NVTX_EVENTS WHERE "
                         "text = 'queue length' AND eventType = 34 ORDER BY rowid)"),
              "-3,none,0");
    EXPECT_EQ(trace.text("SELECT doubleValue FROM NVTX_EVENTS WHERE text = 'load'"), "0.5");
    EXPECT_EQ(trace.text("SELECT jsonText FROM NVTX_EVENTS WHERE text = 'place'"), R"({"x":1.0,"y":2.0})");
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
