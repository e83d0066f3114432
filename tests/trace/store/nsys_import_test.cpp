#include "tests/temporary_folder.h"
#include "trace/open_trace.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using testing::ElementsAre;

// Databases like nsys exports: tables only if they have rows, no constraints, no indexes. A real globalTid has bits of
// the machine above bit 48.
constexpr std::int64_t kMachine = std::int64_t{1} << 48;
constexpr std::int64_t kExportedProcess = kMachine | std::int64_t{0x6f} << 24;

std::string strings() {
    return "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
           "INSERT INTO StringIds VALUES (1, 'forward'), (2, 'gemm'), (3, 'void gemm<float>(float*)'), (4, 'main'), "
           "(5, 'cudaLaunchKernel_v7000'), (6, 'pipescope'), (7, 'worker');";
}

/// NVTX_EVENTS of export 3.16.1. Columns after `floatValue` stay NULL.
std::string nvtx(const std::string& rows) {
    return "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId "
           "INTEGER, "
           "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, "
           "domainId "
           "INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value "
           "INTEGER, "
           "floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);"
           "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId, uint64Value) VALUES " +
           rows + ";";
}

std::string tid(int thread) {
    return std::to_string(kExportedProcess | thread);
}

class NsysImport : public testing::Test {
protected:
    OpenedTrace opened(const std::string& sql) {
        SQLite::Database(folder_ / "t.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
        return open_trace(folder_ / "t.sqlite");
    }

    const TemporaryFolder folder_;
};

/// "name[start, end)@row" of each range.
std::vector<std::string> ranges_of(const OpenedTrace& trace, std::size_t track) {
    std::vector<std::string> texts;
    for (const TraceRange& range : trace.tracks.at(track).ranges) {
        texts.push_back(trace.names[range.name] + "[" + std::to_string(range.start.count()) + ", " +
                        std::to_string(range.end.count()) + ")@" + std::to_string(range.row));
    }
    return texts;
}

TEST_F(NsysImport, ReadsTextsOfEitherKind) {
    const OpenedTrace trace = opened(
        strings() + nvtx("(0, 90, 59, NULL, " + tid(1) + ", 1, 0, NULL), (10, 40, 59, 'plain', " + tid(1) +
                         ", NULL, 0, NULL), (50, 60, 59, NULL, " + tid(1) + ", NULL, 0, NULL), (55, 55, 34, 'mark', " +
                         tid(1) + ", NULL, 0, NULL), (70, NULL, 60, 'open', " + tid(1) + ", NULL, 0, NULL)"));
    EXPECT_EQ(trace.origin, TraceOrigin::nsys);
    ASSERT_EQ(trace.tracks.size(), 1u);
    EXPECT_THAT(ranges_of(trace, 0), ElementsAre("forward[0, 90)@0", "plain[10, 40)@1", "(no text)[50, 60)@1",
                                                 "mark[55, 55)@2", "open[70, 90)@1"));
    EXPECT_TRUE(trace.tracks[0].ranges.back().open);
    EXPECT_FALSE(trace.has_tasks());
}

TEST_F(NsysImport, TellsThreadsOfProcessesApartByThePackedNumber) {
    const std::string other = std::to_string(kMachine | std::int64_t{0x70} << 24 | 1);
    const OpenedTrace trace =
        opened(strings() +
               nvtx("(0, 1, 59, 'a', " + tid(1) + ", NULL, 0, NULL), (0, 1, 59, 'b', " + tid(2) +
                    ", NULL, 0, NULL), (0, 1, 59, 'c', " + other + ", NULL, 0, NULL)") +
               "CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);"
               "INSERT INTO ThreadNames VALUES (7, 0, " +
               tid(2) +
               ");"
               "CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);"
               "INSERT INTO PROCESSES VALUES (" +
               std::to_string(kExportedProcess) + ", 111, 'python3');");
    ASSERT_EQ(trace.tracks.size(), 3u);
    EXPECT_EQ(trace.tracks[0].group, "process 111 (python3)");
    EXPECT_EQ(trace.tracks[0].name, "thread 1");
    EXPECT_EQ(trace.tracks[1].name, "thread 2 (worker)");
    EXPECT_EQ(trace.tracks[2].group, "process 112");
}

TEST_F(NsysImport, ReadsKernelsCopiesAndTheCallsThatLaunchedThem) {
    const std::string process = std::to_string(kExportedProcess);
    const OpenedTrace trace = opened(
        strings() +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
        "greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, "
        "shortName INTEGER, mangledName INTEGER, launchType INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 1, NULL, 7, 42, " +
        process +
        ", 3, 2, NULL, 1);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (210, 220, 0, 1, 7, 43, " +
        process + ", 64, 1), (230, 240, 0, 1, 12, 44, " + process +
        ", 64, 77);"
        "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"
        "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 95, 0, " +
        tid(1) +
        ", 42, 5, 0, NULL);"
        "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, cuDevice INTEGER);"
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H200', 0);"
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);"
        "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');"
        "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, contextId "
        "INTEGER, address INTEGER, pc INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER);"
        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (5, 0, 0, 1, 0, 0, 100, 2, 0), (6, 0, 0, 1, 0, 0, 999, 1, 0), "
        "(7, 0, 0, 1, 0, 0, 40, 2, 1);");
    EXPECT_EQ(trace.utc_epoch_ns, 1'700'000'000'000'000'000);
    ASSERT_EQ(trace.tracks.size(), 3u);
    EXPECT_EQ(trace.tracks[0].group, "GPU 0 (NVIDIA H200)");
    EXPECT_EQ(trace.tracks[0].kind, RangeTrack::Kind::stream);
    EXPECT_THAT(ranges_of(trace, 0), ElementsAre("gemm[100, 200)@0", "copy Host-to-Device[210, 220)@0"));
    EXPECT_EQ(trace.tracks[1].name, "stream 12");
    EXPECT_THAT(ranges_of(trace, 1), ElementsAre("copy of kind 77[230, 240)@0"));
    EXPECT_EQ(trace.tracks[2].kind, RangeTrack::Kind::calls);
    EXPECT_THAT(ranges_of(trace, 2), ElementsAre("cudaLaunchKernel_v7000[90, 95)@0"));
    EXPECT_EQ(trace.tracks[2].ranges[0].correlation, trace.tracks[0].ranges[0].correlation);
    ASSERT_EQ(trace.counters.size(), 1u);
    EXPECT_THAT(trace.counters[0].points, ElementsAre(CounterTrack::Point{Nanoseconds{5}, 100},
                                                      CounterTrack::Point{Nanoseconds{7}, 60}));  // pageable left out
}

TEST_F(NsysImport, ReadsCountersOfMarksWithNumbersAndOfGpuMetrics) {
    const OpenedTrace trace = opened(
        strings() +
        nvtx("(30, 30, 34, 'queue', " + tid(1) + ", NULL, 0, 9), (10, 10, 34, 'queue', " + tid(1) +
             ", NULL, 0, NULL), (20, 20, 34, 'once', " + tid(1) + ", NULL, 0, 3), (40, 40, 34, 'plain', " + tid(1) +
             ", NULL, 0, NULL), (50, 50, 34, 'plain', " + tid(1) + ", NULL, 0, NULL)") +
        "UPDATE NVTX_EVENTS SET doubleValue = -1.5 WHERE start = 10;"
        "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, cuDevice INTEGER);"
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 1, 'NVIDIA H200', 1);"
        "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, "
        "metricName TEXT);"
        "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (257, 0, 'GPU Metrics', 4, 'SMs Active [Throughput %]');"
        "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value REAL);"
        "INSERT INTO GPU_METRICS VALUES (300, 257, 4, 70), (200, 257, 4, 40.5), (250, 257, 5, 1), (260, 257, 4, "
        "'bad');");
    ASSERT_EQ(trace.counters.size(), 3u);
    EXPECT_EQ(trace.counters[0].name, "queue");
    EXPECT_EQ(trace.counters[0].group, "process 111");
    EXPECT_THAT(trace.counters[0].points,
                ElementsAre(CounterTrack::Point{Nanoseconds{10}, -1.5}, CounterTrack::Point{Nanoseconds{30}, 9}));
    EXPECT_EQ(trace.counters[1].name, "SMs Active [Throughput %]");
    EXPECT_EQ(trace.counters[1].group, "GPU 1 (NVIDIA H200)");
    EXPECT_THAT(trace.counters[1].points,
                ElementsAre(CounterTrack::Point{Nanoseconds{200}, 40.5}, CounterTrack::Point{Nanoseconds{300}, 70}));
    EXPECT_EQ(trace.counters[2].name, "metric 5");
    ASSERT_EQ(trace.diagnostics.size(), 1u);
}

TEST_F(NsysImport, MakesTasksOfARunOfPipeScopeUnderNsys) {
    const auto key = [](TaskKind kind, int partition) {
        return std::to_string(
            static_cast<std::int64_t>(pack({2, kind, partition, kind == TaskKind::loss ? -1 : 1, -1})));
    };
    const OpenedTrace trace =
        opened(strings() + nvtx("(1, NULL, 75, NULL, " + tid(0) + ", 6, 3, NULL), (10, 20, 59, NULL, " + tid(1) +
                                ", 1, 3, " + key(TaskKind::forward, 1) + "), (20, 30, 59, NULL, " + tid(1) +
                                ", 1, 3, " + key(TaskKind::loss, -1) + "), (30, 40, 59, NULL, " + tid(1) + ", 1, 3, " +
                                key(TaskKind::copy_backward, 0) + "), (50, 60, 59, 'not ours', " + tid(1) +
                                ", NULL, 4, " + key(TaskKind::forward, 0) + ")"));
    ASSERT_EQ(trace.measured.slices.size(), 3u);
    EXPECT_EQ(trace.measured.slices[0].key, (TaskKey{2, TaskKind::forward, 1, 1, -1}));
    for (const Slice& slice : trace.measured.slices) {
        EXPECT_EQ(slice.lane, LaneId{1}) << to_string(slice.key);  // the last partition; the sender of the copy
    }
    EXPECT_EQ(trace.measured.lanes.size(), 2u);
    EXPECT_TRUE(trace.tracks[0].ranges[0].is_task);
    EXPECT_FALSE(trace.tracks[0].ranges.back().is_task);
}

TEST_F(NsysImport, OpensAnExportWithNothingInIt) {
    const OpenedTrace trace = opened(strings());
    EXPECT_EQ(trace.origin, TraceOrigin::nsys);
    EXPECT_TRUE(trace.tracks.empty());
}

TEST_F(NsysImport, PassesOverTablesThatLackWhatItNeeds) {
    const OpenedTrace trace = opened(strings() +
                                     "CREATE TABLE NVTX_EVENTS (start INTEGER, text TEXT);"
                                     "INSERT INTO NVTX_EVENTS VALUES (1, 'a');"
                                     "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER);"
                                     "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1);");
    EXPECT_TRUE(trace.tracks.empty());
}

TEST_F(NsysImport, NamesTablesOfAnotherVersion) {
    const OpenedTrace trace = opened(strings() + nvtx("(0, 9, 59, 'a', " + tid(1) + ", NULL, 0, NULL)") +
                                     "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V3 (start INTEGER, end INTEGER);"
                                     "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER);");
    ASSERT_EQ(trace.diagnostics.size(), 1U);
    EXPECT_THAT(trace.diagnostics[0].text, testing::HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL_V3"));
}

// Each process numbers its calls from 1.
TEST_F(NsysImport, FindsTheKernelsOfRangesOfEachProcess) {
    const auto global = [](std::int64_t process) { return std::to_string(kMachine | process << 24 | 1); };
    const auto pid = [](std::int64_t process) { return std::to_string(kMachine | process << 24); };
    const auto ranges = [&](std::int64_t process, int rank, int late) {
        return fmt::format(
            "({0}, {1}, 59, 'PP:{2}F0', {3}, NULL, 0, NULL), ({4}, {5}, 59, 'PP:{2}B0', {3}, NULL, 0, NULL)", late,
            late + 10, rank, global(process), late + 20, late + 30);
    };
    const auto work = [&](std::int64_t process, int late) {
        return std::pair(fmt::format("({}, {}, {}, 1, 5), ({}, {}, {}, 2, 5)", late + 1, late + 2, global(process),
                                     late + 21, late + 22, global(process)),
                         fmt::format("({}, {}, 0, 1, 7, 1, {}, 2), ({}, {}, 0, 1, 7, 2, {}, 2)", late + 100, late + 200,
                                     pid(process), late + 200, late + 400, pid(process)));
    };
    const auto [calls_0, kernels_0] = work(0x6f, 0);
    const auto [calls_1, kernels_1] = work(0x70, 1000);
    const OpenedTrace trace = opened(
        strings() + nvtx(ranges(0x6f, 0, 0) + ", " + ranges(0x70, 1, 1000)) +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId "
        "INTEGER, "
        "nameId INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES " +
        calls_0 + ", " + calls_1 + ";INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES " + kernels_0 + ", " + kernels_1 +
        ";");
    std::vector<std::string> texts;
    for (const Slice& slice : trace.measured.slices) {
        texts.push_back(fmt::format("{} {}..{}", to_string(slice.key), slice.start.count(), slice.end.count()));
    }
    EXPECT_THAT(texts, ElementsAre("step 0 forward (0, 0) 100..200", "step 0 backward (0, 0) 200..400",
                                   "step 0 forward (0, 1) 1100..1200", "step 0 backward (0, 1) 1200..1400"));
}
}  // namespace
}  // namespace pipescope
