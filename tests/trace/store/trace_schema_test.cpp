#include "trace/store/trace_schema.h"

#include "tests/temporary_folder.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace pipescope {
namespace {
/// Columns in order: "name" for an integer, "name:TYPE" for other types, with "!" if it is never NULL.
std::string columns_of(SQLite::Database& db, const std::string& table) {
    return db
        .execAndGet(
            "SELECT coalesce(group_concat(name || iif(type = 'INTEGER', '', ':' || type) || "
            "iif(\"notnull\", '!', ''), ' '), '') FROM pragma_table_info('" +
            table + "')")
        .getString();
}

std::string rows_of(SQLite::Database& db, const std::string& table) {
    return db.execAndGet("SELECT group_concat(id || ' ' || name || ' ' || label, ', ') FROM " + table).getString();
}

class TraceSchema : public testing::Test {
protected:
    TraceSchema() { TraceWriter(folder_ / "t.sqlite", IfExists::refuse).close(); }

    const TemporaryFolder folder_;
};

TEST_F(TraceSchema, IsToldFromOtherDatabasesByItsHeader) {
    EXPECT_EQ(read_text(folder_ / "t.sqlite").substr(68, 4), "Pipe");
}

// Names, types and order equal those of nsys 2024.6.2 exports. copyCount and eventSyncId come from later versions.
TEST_F(TraceSchema, HasTheTablesAndColumnsOfAnNsysExport) {
    const std::map<std::string, std::string> expected = {
        {"StringIds", "id! value:TEXT!"},
        {"ThreadNames", "nameId! priority globalTid"},
        {"PROCESSES", "globalPid pid name:TEXT"},
        {"NVTX_EVENTS",
         "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value "
         "int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT binaryData:TEXT"},
        {"CUPTI_ACTIVITY_KIND_KERNEL",
         "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid demangledName! shortName! "
         "mangledName launchType cacheConfig registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! "
         "staticSharedMemory! dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! "
         "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"},
        {"CUPTI_ACTIVITY_KIND_MEMCPY",
         "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid bytes! copyKind! "
         "deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId "
         "virtualAddress copyCount"},
        {"CUPTI_ACTIVITY_KIND_MEMSET",
         "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid value! bytes! graphNodeId "
         "memKind"},
        {"CUPTI_ACTIVITY_KIND_RUNTIME",
         "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId"},
        {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
         "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid syncType! eventId! "
         "eventSyncId"},
        {"CUPTI_ACTIVITY_KIND_CUDA_EVENT",
         "timestamp deviceId! contextId! greenContextId streamId! correlationId globalPid eventId! eventSyncId"},
        {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
         "start! end! deviceId! contextId! greenContextId streamId! correlationId globalPid graphId! graphExecId!"},
        {"CUPTI_ACTIVITY_KIND_OVERHEAD", "start! end! eventClass! globalTid correlationId nameId overheadType!"},
        {"CUDA_GPU_MEMORY_USAGE_EVENTS",
         "start! globalPid! deviceId! contextId! address! pc! bytes! memKind! memoryOperationType! name:TEXT "
         "correlationId streamId localMemoryPoolAddress localMemoryPoolReleaseThreshold localMemoryPoolSize "
         "localMemoryPoolUtilizedSize importedMemoryPoolAddress importedMemoryPoolProcessId"},
        {"TARGET_INFO_SESSION_START_TIME", "utcEpochNs utcTime:TEXT localTime:TEXT"},
        {"TARGET_INFO_GPU",
         "vmId! id! name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount "
         "pwGpuId uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT ctrlDevPath:TEXT revision nodeMask "
         "constantMemory maxIPC maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm "
         "maxRegistersPerSm threadsPerWarp asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX "
         "maxBlockDimY maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor smMinor"},
        {"TARGET_INFO_CUDA_DEVICE", "gpuId cudaId! pid! uuid:TEXT numMultiprocessors!"},
        {"TARGET_INFO_CUDA_CONTEXT_INFO",
         "nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId isGreenContext"},
        {"TARGET_INFO_CUDA_STREAM", "streamId! hwId! vmId! processId! contextId! priority! flag!"},
        {"TARGET_INFO_SYSTEM_ENV", "globalVid devStateName:TEXT! name:TEXT! nameEnum! value:TEXT!"},
        {"ANALYSIS_DETAILS", "globalVid! duration! startTime! stopTime!"},
        {"META_DATA_CAPTURE", "name:TEXT! value:TEXT"},
        {"META_DATA_EXPORT", "name:TEXT! value:TEXT"}};
    SQLite::Database db(folder_ / "t.sqlite");
    for (const auto& [table, columns] : expected) {
        EXPECT_EQ(columns_of(db, table), columns) << table;
    }
}

TEST_F(TraceSchema, HasOrdinaryRowidTables) {
    SQLite::Database db(folder_ / "t.sqlite");
    EXPECT_EQ(
        db.execAndGet("SELECT count(*) FROM sqlite_master WHERE type = 'view' OR sql LIKE '%WITHOUT ROWID%'").getInt(),
        0);
}

TEST_F(TraceSchema, HasTheEnumRowsOfAnNsysExport) {
    const std::map<std::string, std::string> expected = {
        {"ENUM_NSYS_EVENT_TYPE",
         "33 NvtxCategory NvtxCategory, 34 NvtxMark NvtxMark, 39 NvtxThread NvtxThread, "
         "59 NvtxPushPopRange NvtxPushPopRange, 60 NvtxStartEndRange NvtxStartEndRange, "
         "75 NvtxDomainCreate NvtxDomainCreate, 76 NvtxDomainDestroy NvtxDomainDestroy"},
        {"ENUM_CUDA_MEMCPY_OPER",
         "0 CUDA_MEMCPY_KIND_UNKNOWN Unknown, 1 CUDA_MEMCPY_KIND_HTOD Host-to-Device, "
         "2 CUDA_MEMCPY_KIND_DTOH Device-to-Host, 3 CUDA_MEMCPY_KIND_HTOA Host-to-Array, "
         "4 CUDA_MEMCPY_KIND_ATOH Array-to-Host, 5 CUDA_MEMCPY_KIND_ATOA Array-to-Array, "
         "6 CUDA_MEMCPY_KIND_ATOD Array-to-Device, 7 CUDA_MEMCPY_KIND_DTOA Device-to-Array, "
         "8 CUDA_MEMCPY_KIND_DTOD Device-to-Device, 9 CUDA_MEMCPY_KIND_HTOH Host-to-Host, "
         "10 CUDA_MEMCPY_KIND_PTOP Peer-to-Peer, 11 CUDA_MEMCPY_KIND_UVM_HTOD Unified Host-to-Device, "
         "12 CUDA_MEMCPY_KIND_UVM_DTOH Unified Device-to-Host, 13 CUDA_MEMCPY_KIND_UVM_DTOD Unified Device-to-Device"},
        {"ENUM_CUDA_MEM_KIND",  // CUPTI's numbers less one, its unknown (0) at the end
         "0 CUDA_MEMOPR_MEMORY_KIND_PAGEABLE Pageable, 1 CUDA_MEMOPR_MEMORY_KIND_PINNED Pinned, "
         "2 CUDA_MEMOPR_MEMORY_KIND_DEVICE Device, 3 CUDA_MEMOPR_MEMORY_KIND_ARRAY Array, "
         "4 CUDA_MEMOPR_MEMORY_KIND_MANAGED Managed, 5 CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC Device Static, "
         "6 CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC Managed Static, 7 CUDA_MEMOPR_MEMORY_KIND_UNKNOWN Unknown"},
        {"ENUM_CUPTI_SYNC_TYPE",
         "0 CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN Unknown, "
         "1 CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE Event sync, "
         "2 CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT Stream wait sync, "
         "3 CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE Stream sync, "
         "4 CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE Context sync"},
        {"ENUM_CUDA_DEV_MEM_EVENT_OPER",  // CUPTI's numbers less one
         "0 CUDA_DEV_MEM_EVENT_OPR_ALLOCATION Allocation, 1 CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION Deallocation"},
        {"ENUM_NSYS_EVENT_CLASS",
         "0 TRACE_PROCESS_EVENT_CUDA_RUNTIME CUDA runtime, 1 TRACE_PROCESS_EVENT_CUDA_DRIVER CUDA driver"},
        {"ENUM_CUDA_FUNC_CACHE_CONFIG",
         "0 CU_FUNC_CACHE_PREFER_NONE None, 1 CU_FUNC_CACHE_PREFER_SHARED Shared, 2 CU_FUNC_CACHE_PREFER_L1 L1, "
         "3 CU_FUNC_CACHE_PREFER_EQUAL Equal"},
        {"ENUM_CUPTI_STREAM_TYPE",
         "0 CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN Unknown stream, "
         "1 CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT Default stream, "
         "2 CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING Non-blocking stream, "
         "3 CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL Null stream"},
        {"ENUM_CUPTI_OVERHEAD_TYPE",
         "0 OVERHEAD_UNKNOWN Unknown, 2 OVERHEAD_DRIVER_COMPILER Driver JIT compiler, "
         "3 OVERHEAD_CUPTI_BUFFER_FLUSH Buffer flush, 4 OVERHEAD_CUPTI_INSTRUMENTATION Instrumentation, "
         "5 OVERHEAD_CUPTI_RESOURCE Resource, 6 OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING Runtime module loading, "
         "7 OVERHEAD_LAZY_FUNCTION_LOADING Lazy function loading, 8 OVERHEAD_COMMAND_BUFFER_FULL Command buffer full, "
         "9 OVERHEAD_ACTIVITY_BUFFER_REQUEST Activity buffer request, "
         "10 OVERHEAD_UVM_ACTIVITY_INIT UVM activity initialization"},
        {"ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG",
         "0 CUDA_SHARED_MEM_LIMIT_DEFAULT Default, 1 CUDA_SHARED_MEM_LIMIT_OPTIN Opt in"}};
    SQLite::Database db(folder_ / "t.sqlite");
    for (const auto& [table, rows] : expected) {
        EXPECT_EQ(columns_of(db, table), "id! name:TEXT label:TEXT") << table;
        EXPECT_EQ(rows_of(db, table), rows) << table;
    }
    // Readers join kernels with this table, and lose those whose number it lacks.
    EXPECT_THAT(rows_of(db, "ENUM_CUDA_KERNEL_LAUNCH_TYPE"),
                testing::StartsWith("0 CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN Unknown, "
                                    "1 CUDA_KERNEL_LAUNCH_TYPE_REGULAR Regular, "
                                    "2 CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE Coop Single Device"));
}

TEST_F(TraceSchema, HasOurOwnTablesAsDocumented) {
    const std::map<std::string, std::string> expected = {
        {"PIPESCOPE_RUN", "key:TEXT! value:TEXT!"},
        {"PIPESCOPE_STEP",
         "step start! end! wallStart! wallEnd! trainingLoss:REAL warmup! samples "
         "loadOthers:REAL loadStolen:REAL loadPressure:REAL loadTime"},
        {"PIPESCOPE_TASK",
         "id! step kind:TEXT! partition microBatch skip lane device:TEXT start! end! source:TEXT! nvtxId bytes!"},
        {"PIPESCOPE_TASK_DEVICE", "taskId! kernels! copies! start! end! busy! gap! launchDelay! launchGap paced"},
        {"PIPESCOPE_DEVICE_WORK", "taskId! activity:TEXT! activityId! launchStart! attribution:TEXT!"},
        {"PIPESCOPE_COPY", "taskId! sender! receiver! posted! received!"},
        {"PIPESCOPE_MESSAGE", "kernelId! collective:TEXT! bytes elementType:TEXT groupRanks:TEXT groupSize"},
        {"PIPESCOPE_RESOURCE", "kind:TEXT! domainId! identifier! name:TEXT! streamId"},
        {"PIPESCOPE_PROFILE", "profile:TEXT!"},
        {"PIPESCOPE_MEMORY",
         "lane! time! allocated! peak! reserved! taskId parameters gradients optimizer boundary saved skip transient "
         "copy output"},
        {"PIPESCOPE_DROPS", "source:TEXT! thread! recorded! dropped! truncated! openAtExit!"},
        {"PIPESCOPE_CLOCK", "realtime! monotonic! boottime! tsc!"},
        {"PIPESCOPE_OVERHEAD", "source:TEXT! what:TEXT! value!"},
        {"PIPESCOPE_DIAGNOSTIC", "severity:TEXT! source:TEXT! text:TEXT!"}};
    SQLite::Database db(folder_ / "t.sqlite");
    for (const auto& [table, columns] : expected) {
        EXPECT_EQ(columns_of(db, table), columns) << table;
    }
}

// During a recording, indexes would cost more than the rows.
TEST(TraceSchemaIndexes, ComeWhenTheTraceIsClosed) {
    const TemporaryFolder folder;
    const auto indexes = [&] {
        SQLite::Database db(folder / "t.sqlite");
        return db
            .execAndGet(
                "SELECT coalesce(group_concat(sql, '; '), '') FROM (SELECT sql FROM sqlite_master WHERE type = "
                "'index' AND sql NOT NULL ORDER BY name)")
            .getString();
    };
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.add_step({});
    writer.commit();
    EXPECT_EQ(indexes(), "");
    writer.close();
    EXPECT_EQ(indexes(),
              "CREATE INDEX NVTX_EVENTS_BY_TIME ON NVTX_EVENTS (start); "
              "CREATE INDEX PIPESCOPE_MEMORY_BY_TIME ON PIPESCOPE_MEMORY (lane, time); "
              "CREATE INDEX PIPESCOPE_TASK_BY_STEP ON PIPESCOPE_TASK (step, source); "
              "CREATE INDEX PIPESCOPE_TASK_BY_TIME ON PIPESCOPE_TASK (source, start)");
}

TEST(TraceSchemaIndexes, ServeTheQuestionsOfReaders) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    SQLite::Database db(folder / "t.sqlite");
    const auto plan = [&](const std::string& sql) {
        SQLite::Statement query(db, "EXPLAIN QUERY PLAN " + sql);
        query.executeStep();
        return query.getColumn(3).getString();
    };
    EXPECT_THAT(plan("SELECT * FROM NVTX_EVENTS WHERE start BETWEEN 1 AND 2"), testing::HasSubstr("_BY_TIME"));
    EXPECT_THAT(plan("SELECT * FROM PIPESCOPE_TASK WHERE step = 1 AND source = 'measured'"),
                testing::HasSubstr("_BY_STEP"));
    EXPECT_THAT(plan("SELECT * FROM PIPESCOPE_MEMORY WHERE lane = 0 AND time > 5"), testing::HasSubstr("_BY_TIME"));
}

TEST_F(TraceSchema, StampsTheVersionItFollows) {
    SQLite::Database db(folder_ / "t.sqlite");
    const auto value = [&](const std::string& name) {
        return db.execAndGet("SELECT value FROM META_DATA_EXPORT WHERE name = '" + name + "'").getString();
    };
    EXPECT_EQ(value("EXPORT_SCHEMA_VERSION"), kNsysSchemaVersion);
    EXPECT_EQ(value("EXPORT_SCHEMA_VERSION_MAJOR") + "." + value("EXPORT_SCHEMA_VERSION_MINOR") + "." +
                  value("EXPORT_SCHEMA_VERSION_MICRO"),
              kNsysSchemaVersion);
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

TEST(TraceSchemaRows, TellTheSpanOfTheTraceWhenItIsClosed) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{5}, Nanoseconds{70}, 0},
                        Source::measured);
        writer.close();
    }
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(db.execAndGet("SELECT duration || ' ' || startTime || ' ' || stopTime FROM ANALYSIS_DETAILS").getString(),
              "70 0 70");
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
