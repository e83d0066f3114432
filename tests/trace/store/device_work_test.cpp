#include "trace/store/device_work.h"

#include "tests/temporary_folder.h"
#include "tests/trace/device_sample.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <functional>

namespace pipescope {
namespace {
constexpr std::int64_t kProcess = std::int64_t{7} << 24;

/// A trace with attributed device work.
class DeviceWorkOf {
public:
    explicit DeviceWorkOf(const std::function<void(TraceWriter&, CuptiRows&)>& body) {
        TraceWriter writer(folder_ / "t.sqlite", IfExists::refuse);
        {
            CuptiRows rows(writer, 7);
            body(writer, rows);
            rows.finish();
        }
        writer.change([&](SQLite::Database& db) { found = attribute_device_work(db); });
        writer.close();
    }
    std::int64_t number(const std::string& sql) const {
        return SQLite::Database(folder_ / "t.sqlite").execAndGet(sql).getInt64();
    }
    std::string text(const std::string& sql) const {
        return SQLite::Database(folder_ / "t.sqlite").execAndGet(sql).getString();
    }
    DeviceWorkCounts found;

private:
    const TemporaryFolder folder_;
};

TEST(DeviceWork, FillsATableOfAnEarlierBuild) {
    const DeviceWorkOf trace([&](TraceWriter& writer, CuptiRows& rows) {
        writer.change([](SQLite::Database& db) {
            db.exec(
                "ALTER TABLE PIPESCOPE_TASK_DEVICE DROP COLUMN launchGap;"
                "ALTER TABLE PIPESCOPE_TASK_DEVICE DROP COLUMN paced");
        });
        add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, kProcess | 9, 100, 200);
        add_launched_kernel(rows, 1, 9, 110, 13, 150, 250);
    });
    EXPECT_EQ(trace.number("SELECT kernels FROM PIPESCOPE_TASK_DEVICE WHERE paced IS NOT NULL"), 1);
}

TEST(DeviceWork, BelongsToTheTaskInWhoseRangeItWasLaunched) {
    std::int64_t first = 0;
    std::int64_t second = 0;
    const DeviceWorkOf trace([&](TraceWriter& writer, CuptiRows& rows) {
        first = add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, kProcess | 9, 100, 200);
        second = add_measured_task(writer, {0, TaskKind::forward, 0, 1, -1}, 0, kProcess | 9, 200, 300);
        add_measured_task(writer, {0, TaskKind::forward, 1, 0, -1}, 1, kProcess | 10, 100, 300);  // a second lane
        add_launched_kernel(rows, 1, 9, 110, 13, 150, 250);  // ends when its task has long ended: launches run ahead
        add_launched_kernel(rows, 2, 9, 130, 13, 260, 270);
        add_launched_kernel(rows, 3, 9, 210, 13, 280, 300);
        add_launched_kernel(rows, 4, 9, 350, 13, 360, 370);  // in no task
        add_launched_kernel(rows, 5, 8, 120, 99, 130, 140);  // another thread, a stream of no lane
    });
    EXPECT_EQ(trace.found.attributed, 3);
    EXPECT_EQ(trace.found.unattributed, 2);
    const auto of = [&](std::int64_t task, const std::string& column) {
        return trace.number("SELECT " + column + " FROM PIPESCOPE_TASK_DEVICE WHERE taskId = " + std::to_string(task));
    };
    EXPECT_EQ(of(first, "kernels"), 2);
    EXPECT_EQ(of(first, "start"), 150);
    EXPECT_EQ(of(first, "end"), 270);
    EXPECT_EQ(of(first, "busy"), 110);  // 150..250 and 260..270
    EXPECT_EQ(of(first, "gap"), 10);
    EXPECT_EQ(of(first, "launchDelay"), 40);  // launched at 110, began at 150
    EXPECT_EQ(of(second, "busy"), 20);
    EXPECT_EQ(trace.text("SELECT group_concat(attribution) FROM PIPESCOPE_DEVICE_WORK"), "thread,thread,thread");
}

TEST(DeviceWork, CountsOverlappingKernelsOnce) {
    const DeviceWorkOf trace([](TraceWriter& writer, CuptiRows& rows) {
        add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, kProcess | 9, 100, 200);
        add_launched_kernel(rows, 1, 9, 110, 13, 200, 300);
        add_launched_kernel(rows, 2, 9, 120, 14, 210, 250);
        add_launched_kernel(rows, 3, 9, 130, 14, 290, 320);
    });
    EXPECT_EQ(trace.number("SELECT busy FROM PIPESCOPE_TASK_DEVICE"), 120);
    EXPECT_EQ(trace.number("SELECT gap FROM PIPESCOPE_TASK_DEVICE"), 0);
}

TEST(DeviceWork, OfAutogradsThreadBelongsToTheTaskOfItsStreamsLane) {
    // Two lanes, streams 13 and 14. Both backwards run at the same time, and thread 5 launches the kernels of both.
    std::int64_t left = 0;
    std::int64_t right = 0;
    const DeviceWorkOf trace([&](TraceWriter& writer, CuptiRows& rows) {
        add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, kProcess | 9, 100, 200);
        add_measured_task(writer, {0, TaskKind::forward, 1, 0, -1}, 1, kProcess | 10, 100, 200);
        add_launched_kernel(rows, 1, 9, 110, 13, 120, 130);
        add_launched_kernel(rows, 2, 10, 110, 14, 120, 130);
        left = add_measured_task(writer, {0, TaskKind::backward, 0, 0, -1}, 0, kProcess | 9, 300, 400);
        right = add_measured_task(writer, {0, TaskKind::backward, 1, 0, -1}, 1, kProcess | 10, 300, 400);
        add_measured_task(writer, {0, TaskKind::copy_backward, 0, 0, -1}, 1, kProcess | 11, 310, 390);
        add_launched_kernel(rows, 3, 5, 320, 13, 330, 340);
        add_launched_kernel(rows, 4, 5, 325, 14, 330, 345);
        add_launched_kernel(rows, 5, 5, 500, 14, 510, 520);  // no task of the lane was running
    });
    const auto busy = [&](std::int64_t task) {
        return trace.number("SELECT busy FROM PIPESCOPE_TASK_DEVICE WHERE taskId = " + std::to_string(task));
    };
    EXPECT_EQ(busy(left), 10);
    EXPECT_EQ(busy(right), 15);
    EXPECT_EQ(trace.number("SELECT count(*) FROM PIPESCOPE_DEVICE_WORK WHERE attribution = 'stream'"), 2);
    EXPECT_EQ(trace.found.unattributed, 1);
}

TEST(DeviceWork, OfAutogradsThreadOnASharedStreamBelongsToTheOnlyTaskThatRan) {
    std::int64_t left = 0;
    const DeviceWorkOf trace([&](TraceWriter& writer, CuptiRows& rows) {
        add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, kProcess | 9, 100, 200);
        add_measured_task(writer, {0, TaskKind::forward, 1, 0, -1}, 1, kProcess | 10, 100, 200);
        add_launched_kernel(rows, 1, 9, 110, 13, 120, 130);
        add_launched_kernel(rows, 2, 10, 110, 13, 130, 140);
        left = add_measured_task(writer, {0, TaskKind::backward, 0, 0, -1}, 0, kProcess | 9, 300, 400);
        add_measured_task(writer, {0, TaskKind::backward, 1, 0, -1}, 1, kProcess | 10, 350, 400);
        add_launched_kernel(rows, 3, 5, 320, 13, 330, 340);
        add_launched_kernel(rows, 4, 5, 360, 13, 370, 380);  // both lanes went backward
    });
    EXPECT_EQ(trace.number("SELECT taskId FROM PIPESCOPE_DEVICE_WORK WHERE attribution = 'stream'"), left);
    EXPECT_EQ(trace.found.attributed, 3);
    EXPECT_EQ(trace.found.unattributed, 1);
}

TEST(DeviceWork, TellsWhereTheClocksOfHostAndDeviceDisagree) {
    const DeviceWorkOf trace([](TraceWriter&, CuptiRows& rows) {
        add_launched_kernel(rows, 1, 9, 110, 13, 80, 100);
        add_launched_kernel(rows, 2, 9, 110, 13, 115, 120);
    });
    EXPECT_EQ(trace.found.early, 1);
    EXPECT_EQ(trace.found.most_early_ns, 30);
}

TEST(DeviceWork, KnowsARunTimeCallFromTheDriversCallInsideIt) {
    const DeviceWorkOf trace([](TraceWriter& writer, CuptiRows& rows) {
        add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, kProcess | 9, 100, 200);
        rows.add(ApiRecord{112, 113, true, 9, 1, "cuLaunchKernel", 0});
        add_launched_kernel(rows, 1, 9, 110, 13, 150, 160);
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM PIPESCOPE_DEVICE_WORK"), 1);
    EXPECT_EQ(trace.number("SELECT launchDelay FROM PIPESCOPE_TASK_DEVICE"), 40);
}

TEST(DeviceWork, HasNsysNumbersForCuptis) {
    const DeviceWorkOf trace([](TraceWriter&, CuptiRows& rows) {
        MemcpyRecord copy;
        copy.copy_kind = 1;         // host to device is 1 in both
        copy.source_kind = 2;       // pinned
        copy.destination_kind = 3;  // device
        rows.add(copy);
        copy.source_kind = 0;  // unknown
        rows.add(copy);
        rows.add(DeviceMemoryRecord{.memory_kind = 3, .operation = 2});
        rows.add(CuptiOverheadRecord{.kind = 1 << 16});
        KernelRecord kernel;
        kernel.launch_type = 0;  // regular
        rows.add(kernel);
        rows.add(SynchronizationRecord{.span = {.device = kUnknownDevice, .context = 1}});
        rows.add(SynchronizationRecord{.span = {.device = kUnknownDevice, .context = 2}});
        rows.add(ContextRecord{.context = 1, .device = 3});
    });
    const auto label = [&](const std::string& table, const std::string& column, const std::string& names) {
        return trace.text("SELECT group_concat(label) FROM (SELECT e.label FROM " + table + " AS t JOIN " + names +
                          " AS e ON e.id = t." + column + " ORDER BY t.rowid)");
    };
    EXPECT_EQ(label("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind", "ENUM_CUDA_MEM_KIND"), "Pinned,Unknown");
    EXPECT_EQ(label("CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind", "ENUM_CUDA_MEM_KIND"), "Device,Device");
    EXPECT_EQ(label("CUDA_GPU_MEMORY_USAGE_EVENTS", "memoryOperationType", "ENUM_CUDA_DEV_MEM_EVENT_OPER"),
              "Deallocation");
    EXPECT_EQ(label("CUPTI_ACTIVITY_KIND_OVERHEAD", "overheadType", "ENUM_CUPTI_OVERHEAD_TYPE"), "Buffer flush");
    EXPECT_EQ(label("CUPTI_ACTIVITY_KIND_KERNEL", "launchType", "ENUM_CUDA_KERNEL_LAUNCH_TYPE"), "Regular");
    EXPECT_EQ(trace.text("SELECT group_concat(deviceId) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"), "3,-1");
}
}  // namespace
}  // namespace pipescope
