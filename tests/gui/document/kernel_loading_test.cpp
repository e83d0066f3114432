#include "gui/document/kernel_loading.h"
#include "gui/document/document_loader.h"
#include "gui/tables/task_details.h"
#include "tests/gui/sample_trace.h"
#include "tests/trace/device_sample.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
constexpr std::int64_t kThread = std::int64_t{7} << 24 | 9;
const TaskKey kForward{0, TaskKind::forward, 0, 0, -1};
const TaskKey kBackward{0, TaskKind::backward, 0, 0, -1};

/// One lane whose forward launched two kernels and whose backward launched a copy.
QString traceWithKernels(const std::string& name) {
    const auto path = temporaryPath(name);
    TraceWriter writer(path, IfExists::replace);
    writer.set_lanes({{"lane 0", "cuda:0"}});
    add_measured_task(writer, kForward, 0, kThread, 1000, 2000);
    add_measured_task(writer, kBackward, 0, kThread, 2000, 3000);
    {
        CuptiRows rows(writer, 7);
        add_launched_kernel(rows, 1, 9, 1100, 13, 1500, 2500);
        add_launched_kernel(rows, 2, 9, 1200, 13, 2500, 2600);
        add_launched_kernel(rows, 3, 9, 5000, 13, 5100, 5200);  // in no task
        rows.add(ApiRecord{2100, 2101, false, 9, 4, "cudaMemcpyAsync_v3020", 0});
        MemcpyRecord copy;
        copy.span = {2700, 2900, 0, 1, 13, 4, 0};
        rows.add(copy);
        rows.finish();
    }
    writer.change([](SQLite::Database& db) { attribute_device_work(db); });
    writer.close();
    return QString::fromStdString(path.string());
}

TEST(KernelLoading, FindsTheWorkOfEachTaskBelowItsLane) {
    const auto document = loadTrace(traceWithKernels("kernels.sqlite"));
    ASSERT_TRUE(document->kernels);
    const KernelStore& kernels = *document->kernels;
    ASSERT_EQ(kernels.slices().numSlices(), 3U);
    const Kernel first = kernels.kernel({0, 0});
    EXPECT_EQ(first.name, "add");
    EXPECT_EQ(first.task, kForward);
    EXPECT_EQ(first.lane, LaneId{0});
    EXPECT_EQ(first.start, 1500);
    EXPECT_EQ(first.end, 2500);
    EXPECT_EQ(first.launchDelay, 400);
    const Kernel copy = kernels.kernel({0, 2});
    EXPECT_EQ(copy.name, "copy");
    EXPECT_EQ(copy.task, kBackward);
    EXPECT_EQ(copy.launchDelay, 600);
    ASSERT_TRUE(kernels.workOf(kForward));
    EXPECT_EQ(kernels.workOf(kForward)->kernels, 2);
    EXPECT_EQ(kernels.workOf(kForward)->busy, 1100);
    EXPECT_EQ(kernels.workOf(kForward)->launchDelay, 400);
    EXPECT_EQ(kernels.workOf(kBackward)->copies, 1);
}

TEST(KernelLoading, TellsTheDevicesPartWithTheTask) {
    const auto document = loadTrace(traceWithKernels("task_kernels.sqlite"));
    const SliceRef forward = *document->measured->find(kForward);
    TaskFacts facts = taskFacts(*document, {Source::measured, forward, std::nullopt}, 0);
    facts.device.replace(QChar(QChar::Nbsp), QLatin1Char(' '));
    EXPECT_TRUE(facts.device.contains(QStringLiteral("kernels 2, copies and fills 0, busy 1.100 µs of 1.100 µs")))
        << facts.device.toStdString();
    EXPECT_TRUE(toolTipOf(facts, Source::measured).contains(QStringLiteral("launch delay 400 ns")));
}

TEST(KernelLoading, GivesNothingForARunOnTheHost) {
    const auto path = temporaryPath("host.sqlite");
    writeSampleTrace(path);
    EXPECT_FALSE(loadTrace(QString::fromStdString(path.string()))->kernels);
}

TEST(KernelLoading, EndsWhenItIsToStop) {
    std::stop_source stop;
    stop.request_stop();
    EXPECT_FALSE(kernelsOf(traceWithKernels("stopped.sqlite"), {{"lane 0", "cuda:0"}}, stop.get_token()));
}
}  // namespace
}  // namespace pipescope
