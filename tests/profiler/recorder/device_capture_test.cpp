#include "profiler/recorder/device_capture.h"

#include "tests/temporary_folder.h"
#include "trace/open_trace.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;

const std::string kDriver = FAKE_DRIVER_FOLDER;
const std::string kBoth = std::string(FAKE_DRIVER_FOLDER) + ":" + FAKE_CUPTI_FOLDER;

/// The recording of device_program in a separate process, with those fake libraries available that `libraries` names.
class DeviceTrace {
public:
    explicit DeviceTrace(const std::string& libraries, const std::map<std::string, std::string>& environment = {},
                         const char* mode = "record") {
        const std::string trace = path();
        const pid_t child = fork();
        if (child == 0) {
            unsetenv("NVTX_INJECTION64_PATH");
            unsetenv("PIPESCOPE_CUPTI");
            setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
            for (const auto& [name, value] : environment) {
                setenv(name.c_str(), value.c_str(), 1);
            }
            execl(DEVICE_PROGRAM, DEVICE_PROGRAM, mode, trace.c_str(), nullptr);
            _exit(127);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 0);  // whatever happens to the recording
    }
    std::filesystem::path path() const { return folder_ / "t.sqlite"; }
    std::int64_t number(const std::string& sql) const { return SQLite::Database(path()).execAndGet(sql).getInt64(); }
    std::string text(const std::string& sql) const { return SQLite::Database(path()).execAndGet(sql).getString(); }
    std::int64_t rows_of(const std::string& table) const { return number("SELECT count(*) FROM " + table); }
    DropRecord counts() const {
        for (const DropRecord& drop : TraceReader(path()).drops()) {
            if (drop.source == "cupti") {
                return drop;
            }
        }
        return {};
    }
    /// The only diagnostic of CUPTI, as "severity: text".
    std::string diagnostic() const {
        return text(
            "SELECT group_concat(severity || ': ' || text, '; ') FROM PIPESCOPE_DIAGNOSTIC WHERE source = 'cupti'");
    }

private:
    const TemporaryFolder folder_;
};

TEST(DeviceCapture, WritesRecordsOfEveryKind) {
    const DeviceTrace trace(kBoth);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_KERNEL"), 4);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_MEMCPY"), 2);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_MEMSET"), 1);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_RUNTIME"), 5);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"), 1);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_CUDA_EVENT"), 1);
    EXPECT_EQ(trace.rows_of("CUDA_GPU_MEMORY_USAGE_EVENTS"), 1);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_OVERHEAD"), 1);
    EXPECT_EQ(trace.rows_of("TARGET_INFO_GPU"), 1);
    EXPECT_EQ(trace.rows_of("TARGET_INFO_CUDA_DEVICE"), 1);
    EXPECT_EQ(trace.rows_of("TARGET_INFO_CUDA_CONTEXT_INFO"), 1);
    EXPECT_EQ(trace.rows_of("TARGET_INFO_CUDA_STREAM"), 1);
    const DropRecord counts = trace.counts();
    EXPECT_EQ(counts.dropped, 0);
    EXPECT_EQ(counts.open_at_exit, 1);  // a kernel that never ended
    EXPECT_EQ(counts.recorded, 20);     // a device stands in two tables
    EXPECT_THAT(trace.diagnostic(), HasSubstr("warning: 1 kernel or copy is without times"));
    EXPECT_THAT(trace.diagnostic(), HasSubstr("info: 1 record was left out, of kinds that this version does not know"));
    EXPECT_EQ(trace.text("PRAGMA integrity_check"), "ok");
}

TEST(DeviceCapture, KeepsWhatTheRecordsSay) {
    const DeviceTrace trace(kBoth);
    EXPECT_EQ(trace.text("SELECT d.value || '|' || s.value || '|' || m.value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN "
                         "StringIds AS d ON d.id = demangledName JOIN StringIds AS s ON s.id = shortName JOIN "
                         "StringIds AS m ON m.id = mangledName LIMIT 1"),
              "void at::native::(anonymous namespace)::add<float, 4>(float*, int)|add|"
              "_ZN2at6native12_GLOBAL__N_13addIfLi4EEEvPT_i");
    EXPECT_EQ(trace.text("SELECT gridX || ' ' || blockX || ' ' || registersPerThread || ' ' || localMemoryTotal || ' ' "
                         "|| streamId FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"),
              "4 128 32 8589934592 13");
    EXPECT_EQ(trace.text("SELECT group_concat(value) FROM (SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN "
                         "StringIds ON id = nameId ORDER BY eventClass)"),
              "cudaLaunchKernel_v7000,driver call 307");
    EXPECT_EQ(trace.text("SELECT name || ' ' || smCount || ' ' || memoryBandwidth || ' ' || computeMajor FROM "
                         "TARGET_INFO_GPU"),
              "Fake GPU 132 4000000000 9");
    EXPECT_EQ(trace.number("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION JOIN "
                           "CUPTI_ACTIVITY_KIND_CUDA_EVENT USING (eventSyncId)"),
              1);
    EXPECT_EQ(trace.text("SELECT label FROM TARGET_INFO_CUDA_STREAM JOIN ENUM_CUPTI_STREAM_TYPE ON id = flag"),
              "Non-blocking stream");
}

// CUPTI numbers memory kinds and operations from 1, nsys from 0.
TEST(DeviceCapture, NumbersKindsAsNsysDoes) {
    const DeviceTrace trace(kBoth);
    EXPECT_EQ(trace.text("SELECT group_concat(c.label || ', ' || s.label || ' to ' || d.label || ', ' || bytes, '; ') "
                         "FROM CUPTI_ACTIVITY_KIND_MEMCPY JOIN ENUM_CUDA_MEMCPY_OPER AS c ON c.id = copyKind JOIN "
                         "ENUM_CUDA_MEM_KIND AS s ON s.id = srcKind JOIN ENUM_CUDA_MEM_KIND AS d ON d.id = dstKind"),
              "Host-to-Device, Pinned to Device, 4096; Peer-to-Peer, Device to Device, 8192");
    EXPECT_EQ(trace.text("SELECT group_concat(coalesce(dstDeviceId, 'none')) FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
              "none,1");
    EXPECT_EQ(trace.text("SELECT k.label || ' ' || value || ' ' || bytes FROM CUPTI_ACTIVITY_KIND_MEMSET JOIN "
                         "ENUM_CUDA_MEM_KIND AS k ON k.id = memKind"),
              "Device 171 64");
    EXPECT_EQ(trace.text("SELECT o.label || ' ' || k.label || ' ' || bytes FROM CUDA_GPU_MEMORY_USAGE_EVENTS JOIN "
                         "ENUM_CUDA_DEV_MEM_EVENT_OPER AS o ON o.id = memoryOperationType JOIN ENUM_CUDA_MEM_KIND AS k "
                         "ON k.id = memKind"),
              "Allocation Device 1048576");
    EXPECT_EQ(trace.text("SELECT label FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION JOIN ENUM_CUPTI_SYNC_TYPE ON id = "
                         "syncType"),
              "Stream wait sync");
    EXPECT_EQ(trace.text("SELECT label FROM CUPTI_ACTIVITY_KIND_OVERHEAD JOIN ENUM_CUPTI_OVERHEAD_TYPE ON id = "
                         "overheadType"),
              "Buffer flush");
}

TEST(DeviceCapture, CallsStreamsByTheNamesTheyWereGiven) {
    const DeviceTrace trace(kBoth);
    EXPECT_EQ(
        trace.text("SELECT name FROM PIPESCOPE_RESOURCE JOIN CUPTI_ACTIVITY_KIND_KERNEL USING (streamId) LIMIT 1"),
        "copies");
    EXPECT_EQ(trace.number("SELECT streamId IS NULL FROM PIPESCOPE_RESOURCE WHERE name = 'unknown to CUPTI'"), 1);
    std::vector<std::string> names;
    for (const RangeTrack& track : open_trace(trace.path()).tracks) {
        if (track.kind == RangeTrack::Kind::stream) {
            names.push_back(track.name);
        }
    }
    EXPECT_EQ(names, (std::vector<std::string>{"stream 13 (copies)"}));
}

TEST(DeviceCapture, KnowsEachTasksKernels) {
    const DeviceTrace trace(kBoth);
    EXPECT_EQ(trace.text("SELECT group_concat(t.kind || ' ' || d.kernels || ' ' || d.busy) FROM PIPESCOPE_TASK_DEVICE "
                         "AS d JOIN PIPESCOPE_TASK AS t ON t.id = d.taskId"),
              "forward 2 3000,backward 2 3000");
    EXPECT_EQ(trace.number("SELECT count(*) FROM PIPESCOPE_TASK_DEVICE WHERE launchDelay = 5000"), 2);
}

TEST(DeviceCapture, KnowsEachKernelOfAGraphATaskLaunched) {
    const DeviceTrace trace(kBoth, {}, "graph");
    EXPECT_EQ(trace.text("SELECT group_concat(graphNodeId) FROM CUPTI_ACTIVITY_KIND_KERNEL"), "71,72,73");
    EXPECT_EQ(trace.text("SELECT t.kind || ' ' || d.kernels || ' ' || d.busy FROM PIPESCOPE_TASK_DEVICE AS d JOIN "
                         "PIPESCOPE_TASK AS t ON t.id = d.taskId"),
              "forward 3 1200");
}

TEST(DeviceCapture, TakesTimesOfTheWallClockWhereItMust) {
    const DeviceTrace trace(kBoth, {{"FAKE_CUPTI_NO_CLOCK", "1"}});
    // Each launch lies within its task's range. They have different clocks, read microseconds apart, so a launch may
    // seem to lie just outside.
    EXPECT_EQ(trace.number("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r, PIPESCOPE_TASK AS t WHERE "
                           "r.correlationId BETWEEN 1 AND 4 AND (t.kind = 'forward') = (r.correlationId <= 2) AND "
                           "r.start BETWEEN t.start - 1000000 AND t.end + 1000000"),
              4);
}

TEST(DeviceCapture, CountsWhatItHasNoBuffersFor) {
    const DeviceTrace trace(kBoth, {}, "overload");
    const DropRecord counts = trace.counts();
    EXPECT_GT(counts.recorded, 0);
    EXPECT_GT(counts.dropped, 0);
    EXPECT_EQ(counts.recorded + counts.dropped, 2000);  // 1,000 calls and their kernels
    EXPECT_EQ(counts.recorded,
              trace.rows_of("CUPTI_ACTIVITY_KIND_KERNEL") + trace.rows_of("CUPTI_ACTIVITY_KIND_RUNTIME"));
    EXPECT_THAT(trace.diagnostic(), HasSubstr("warning: " + std::to_string(counts.dropped) + " records"));
}

TEST(DeviceCapture, CountsWhatCuptiLost) {
    const DeviceTrace trace(kBoth, {{"FAKE_CUPTI_DROPPED", "5"}});
    EXPECT_EQ(trace.counts().dropped, 5);
    EXPECT_THAT(trace.diagnostic(), HasSubstr("warning: 5 records"));
}

TEST(DeviceCapture, RecordsInEveryRecordingOfAProcess) {
    const DeviceTrace trace(kBoth, {}, "again");
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_KERNEL"), 3);
    SQLite::Database second(trace.path().string() + ".second");
    EXPECT_EQ(second.execAndGet("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").getInt(), 4);
}

TEST(DeviceCapture, WaitsForTheEndOfWorkThatStillRuns) {
    const DeviceTrace trace(kBoth, {}, "long-kernel");
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_KERNEL"), 1);
    EXPECT_EQ(trace.counts().open_at_exit, 0);
}

TEST(DeviceCapture, JoinsCallsToTheThreadsOfRanges) {
    const DeviceTrace trace(kBoth);
    EXPECT_EQ(trace.number("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid NOT IN (SELECT globalTid "
                           "FROM NVTX_EVENTS WHERE globalTid NOT NULL)"),
              0);
}

TEST(DeviceCapture, SaysWhatCuptiRefusedOnTheWay) {
    const auto diagnostic = [](const char* function) {
        return DeviceTrace(kBoth, {{"FAKE_CUPTI_FAIL", function}}).diagnostic();
    };
    EXPECT_THAT(diagnostic("cuptiSetThreadIdType"),
                HasSubstr("warning: cuptiSetThreadIdType gives CUPTI_ERROR_UNKNOWN (999): calls and kernels are not "
                          "joined to threads"));
    EXPECT_THAT(diagnostic("cuptiActivityRegisterCallbacks"), HasSubstr("nothing is handed over"));
    EXPECT_THAT(diagnostic("cuptiActivityFlushAll"), HasSubstr("an unknown amount of work on CUDA devices is missing"));
    EXPECT_THAT(diagnostic("cuptiActivityGetNumDroppedRecords"), HasSubstr("whether CUPTI lost records is not known"));
    EXPECT_THAT(diagnostic("cuptiActivitySetAttribute"), testing::Not(HasSubstr("gives")))
        << "it fills buffers with zeros itself then, and nothing is lost";
}

TEST(DeviceCapture, SaysWhichKindIsMissing) {
    const DeviceTrace trace(kBoth, {{"FAKE_CUPTI_REFUSE", "38"}});
    EXPECT_THAT(trace.diagnostic(),
                HasSubstr("warning: CUPTI refuses to record synchronizations: CUPTI_ERROR_NOT_COMPATIBLE"));
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_KERNEL"), 4);
}

/// The reason why device work was not recorded, although ranges were.
std::string reason(const std::string& libraries, const std::map<std::string, std::string>& environment = {}) {
    const DeviceTrace trace(libraries, environment);
    EXPECT_EQ(trace.rows_of("PIPESCOPE_TASK"), 2);
    EXPECT_EQ(trace.rows_of("CUPTI_ACTIVITY_KIND_KERNEL"), 0);
    return trace.diagnostic();
}

TEST(DeviceCaptureOff, SaysThatThereIsNoDriver) {
    if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) {
        GTEST_SKIP() << "this machine has a CUDA driver";
    }
    EXPECT_THAT(reason(""), testing::StartsWith("info: off, work on CUDA devices is not recorded: there is no CUDA "
                                                "driver (libcuda.so.1"));
}

TEST(DeviceCaptureOff, SaysThatThereIsNoDevice) {
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUDA_DEVICES", "0"}}), HasSubstr("finds no device"));
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUDA_INIT", "100"}}), HasSubstr("cuInit gives 100"));
}

TEST(DeviceCaptureOff, SaysThatThereIsNoCupti) {
    EXPECT_THAT(reason(kDriver, {{"PIPESCOPE_CUPTI", "/nowhere/cupti.so"}}),
                testing::AllOf(HasSubstr("warning: "), HasSubstr("/nowhere/cupti.so is not found")));
}

TEST(DeviceCaptureOff, SaysWhichNameOfCuptiIsNotFound) {
    if (dlopen("libcupti.so.13", RTLD_LAZY) != nullptr ||
        std::filesystem::exists("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13")) {
        GTEST_SKIP() << "this machine has CUPTI where it is looked for";
    }
    EXPECT_THAT(reason(kDriver), HasSubstr("libcupti.so.13 is not found"));
}

TEST(DeviceCaptureOff, RefusesAnotherVersion) {
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUPTI_VERSION", "26"}}), HasSubstr("CUPTI has version 26"));
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUPTI_VERSION", "140000"}}), HasSubstr("CUPTI has version 140000"));
}

TEST(DeviceCaptureOff, SaysWhoHoldsCupti) {
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUPTI_SUBSCRIBE", "39"}, {"FAKE_CUPTI_HOLDER", "Nsight Systems"}}),
                HasSubstr("warning: off, work on CUDA devices is not recorded: CUPTI is held by Nsight Systems"));
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUPTI_SUBSCRIBE", "39"}}), HasSubstr("held by another tool"));
    EXPECT_THAT(reason(kBoth, {{"FAKE_CUPTI_SUBSCRIBE", "999"}}), HasSubstr("CUPTI_ERROR_UNKNOWN (999)"));
}

TEST(DeviceCaptureOff, IsOffWhereAsked) {
    EXPECT_THAT(reason(kBoth, {{"PIPESCOPE_CUPTI", "off"}}), HasSubstr("PIPESCOPE_CUPTI is off"));
}
}  // namespace
}  // namespace pipescope
