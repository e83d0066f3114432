#include "trace/trace_schema.h"

#include "temporary_folder.h"
#include "trace/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace pipescope {
namespace {
std::string columns_of(SQLite::Database& db, const std::string& table) {
    return db.execAndGet("SELECT coalesce(group_concat(name, ' '), '') FROM pragma_table_info('" + table + "')")
        .getString();
}

class TraceSchema : public testing::Test {
protected:
    TraceSchema() { TraceWriter(folder_ / "t.sqlite", IfExists::refuse).close(); }

    const TemporaryFolder folder_;
};

TEST_F(TraceSchema, HasTheTablesAndColumnsOfAnNsysExport) {
    const std::map<std::string, std::string> expected = {
        {"StringIds", "id value"},
        {"ThreadNames", "nameId priority globalTid"},
        {"PROCESSES", "globalPid pid name"},
        {"NVTX_EVENTS",
         "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value "
         "int64Value "
         "doubleValue uint32Value int32Value floatValue jsonTextId jsonText binaryData"},
        {"CUPTI_ACTIVITY_KIND_KERNEL",
         "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName "
         "mangledName "
         "launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
         "dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId "
         "sharedMemoryLimitConfig"},
        {"CUPTI_ACTIVITY_KIND_MEMCPY",
         "start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind deprecatedSrcId "
         "srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress "
         "copyCount"},
        {"CUPTI_ACTIVITY_KIND_MEMSET",
         "start end deviceId contextId greenContextId streamId correlationId globalPid value bytes graphNodeId "
         "memKind"},
        {"CUPTI_ACTIVITY_KIND_RUNTIME", "start end eventClass globalTid correlationId nameId returnValue callchainId"},
        {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
         "start end deviceId contextId greenContextId streamId correlationId globalPid syncType eventId eventSyncId"},
        {"TARGET_INFO_SESSION_START_TIME", "utcEpochNs utcTime localTime"},
        {"TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid uuid numMultiprocessors"},
        {"META_DATA_CAPTURE", "name value"},
        {"META_DATA_EXPORT", "name value"}};
    SQLite::Database db(folder_ / "t.sqlite");
    for (const auto& [table, columns] : expected) {
        EXPECT_EQ(columns_of(db, table), columns) << table;
    }
    EXPECT_THAT(columns_of(db, "TARGET_INFO_GPU"), testing::HasSubstr("id name busLocation"));
}

TEST_F(TraceSchema, HasOurOwnTablesAsDocumented) {
    const std::map<std::string, std::string> expected = {
        {"PIPESCOPE_RUN", "key value"},
        {"PIPESCOPE_STEP", "step start end wallStart wallEnd trainingLoss warmup"},
        {"PIPESCOPE_TASK", "id step kind partition microBatch skip lane device start end source nvtxId bytes"},
        {"PIPESCOPE_PROFILE", "profile"},
        {"PIPESCOPE_MEMORY",
         "lane time allocated peak reserved taskId parameters gradients optimizer boundary saved skip transient copy "
         "output"},
        {"PIPESCOPE_DROPS", "source thread recorded dropped truncated openAtExit"},
        {"PIPESCOPE_CLOCK", "realtime monotonic boottime tsc"},
        {"PIPESCOPE_OVERHEAD", "source what value"},
        {"PIPESCOPE_DIAGNOSTIC", "severity source text"}};
    SQLite::Database db(folder_ / "t.sqlite");
    for (const auto& [table, columns] : expected) {
        EXPECT_EQ(columns_of(db, table), columns) << table;
    }
}

TEST_F(TraceSchema, StampsTheVersionItFollowsAndFillsTheEnumTables) {
    SQLite::Database db(folder_ / "t.sqlite");
    const auto value = [&](const std::string& name) {
        return db.execAndGet("SELECT value FROM META_DATA_EXPORT WHERE name = '" + name + "'").getString();
    };
    EXPECT_EQ(value("EXPORT_SCHEMA_VERSION"), kNsysSchemaVersion);
    EXPECT_EQ(value("EXPORT_SCHEMA_VERSION_MAJOR") + "." + value("EXPORT_SCHEMA_VERSION_MINOR") + "." +
                  value("EXPORT_SCHEMA_VERSION_MICRO"),
              kNsysSchemaVersion);
    EXPECT_EQ(db.execAndGet("SELECT name FROM ENUM_NSYS_EVENT_TYPE WHERE id = 59").getString(), "NvtxPushPopRange");
    // nsys numbers memory kinds one below CUPTI's
    EXPECT_EQ(db.execAndGet("SELECT label FROM ENUM_CUDA_MEM_KIND WHERE id = 2").getString(), "Device");
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM ENUM_CUDA_MEMCPY_OPER").getInt(), 11);
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM ENUM_CUPTI_SYNC_TYPE").getInt(), 5);
}

TEST(TraceSchemaRows, KeepTextAndTextIdAndEachPayloadInItsColumn) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        NvtxRecord range;
        range.start = 5;
        range.end = 9;
        range.text = "forward";
        range.uint64_value = 0x8000'0000'0000'0001u;
        EXPECT_EQ(writer.add_range(range), 1);
        range = {};
        range.text = "forward";
        range.event_type = 34;
        range.float_value = 0.5F;
        range.int32_value = -3;
        EXPECT_EQ(writer.add_range(range), 2);
        writer.close();
    }
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(
        db.execAndGet("SELECT count(*) FROM NVTX_EVENTS JOIN StringIds ON textId = id WHERE text = value").getInt(), 2);
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM StringIds").getInt(), 1);
    EXPECT_EQ(db.execAndGet("SELECT uint64Value FROM NVTX_EVENTS WHERE rowid = 1").getInt64(),
              static_cast<std::int64_t>(0x8000'0000'0000'0001u));
    EXPECT_EQ(db.execAndGet("SELECT end IS NULL AND floatValue = 0.5 AND int32Value = -3 AND uint64Value IS NULL "
                            "FROM NVTX_EVENTS WHERE rowid = 2")
                  .getInt(),
              1);
}

TEST(TraceSchemaRows, StoreAFieldWithoutMeaningAsNull) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_task({{0, TaskKind::optimizer, -1, -1, -1}, LaneId{-1}, Nanoseconds{1}, Nanoseconds{2}, 0},
                        Source::measured, 7);
        writer.close();
    }
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(
        db.execAndGet("SELECT count(*) FROM PIPESCOPE_TASK WHERE step = 0 AND kind = 'optimizer' AND partition IS NULL "
                      "AND microBatch IS NULL AND skip IS NULL AND lane IS NULL AND device IS NULL AND nvtxId = 7")
            .getInt(),
        1);
}
}  // namespace
}  // namespace pipescope
