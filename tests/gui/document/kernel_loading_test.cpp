#include "gui/document/kernel_loading.h"
#include "gui/document/document_loader.h"
#include "gui/tables/task_details.h"
#include "tests/gui/sample_trace.h"
#include "tests/gui/window/nsys_export.h"
#include "tests/trace/device_sample.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// Ranges of another program's pipeline: no packed names, and times that leave out the wait for input.
TEST(KernelLoading, FindsTheWorkOfRecognisedTasks) {
    const auto path = writeNsysExport("recognised.sqlite");
    {
        SQLite::Database db(path, SQLite::OPEN_READWRITE);
        db.exec(
            "DELETE FROM NVTX_EVENTS WHERE eventType = 75; UPDATE NVTX_EVENTS SET uint64Value = NULL, domainId = 0, "
            "textId = NULL, text = CASE start WHEN 1000 THEN 'PP:0F0' WHEN 2000 THEN 'PP:0B0' ELSE text END");
    }
    const auto document = loadTrace(QString::fromStdString(path.string()));
    ASSERT_TRUE(document->measured && document->kernels);
    ASSERT_EQ(document->kernels->slices().numSlices(), 1U);
    const Kernel kernel = document->kernels->kernel({0, 0});
    EXPECT_EQ(kernel.task, (TaskKey{0, TaskKind::forward, 0, 0, -1}));
    EXPECT_EQ(kernel.start, 2500);
}

TEST(KernelLoading, TellsTheDevicesPartWithTheTask) {
    const auto document = loadTrace(traceWithKernels("task_kernels.sqlite"));
    const SliceRef forward = *document->measured->find(kForward);
    TaskFacts facts = taskFacts(*document, {Source::measured, forward, std::nullopt}, 0);
    facts.device.replace(QChar(QChar::Nbsp), QLatin1Char(' '));
    EXPECT_TRUE(facts.device.contains(QStringLiteral("kernels 2, copies and fills 0, busy 1.100 µs of 1.100 µs")))
        << facts.device.toStdString();
    EXPECT_TRUE(toolTipOf(facts).contains(QStringLiteral("launch delay 400 ns")));
}

TEST(KernelLoading, GivesNothingForARunOnTheHost) {
    const auto path = temporaryPath("host.sqlite");
    writeSampleTrace(path);
    EXPECT_FALSE(loadTrace(QString::fromStdString(path.string()))->kernels);
}

/// Two lanes, each with a stream of its own or both with one. Each lane's own thread launches a kernel in its forward;
/// then both lanes go backward at once, and autograd's thread launches a kernel on the first one's stream.
OpenedTrace traceOfAutograd(bool oneStream) {
    OpenedTrace trace;
    trace.origin = TraceOrigin::nsys;
    trace.names = {"", "forward", "kernel", "gemm"};
    trace.measured.lanes = {{"lane 0", ""}, {"lane 1", ""}};
    const auto range = [](int start, int end, std::uint32_t correlation, bool task = false) {
        TraceRange made;
        made.start = Nanoseconds{start};
        made.end = Nanoseconds{end};
        made.name = 3;
        made.category = 2;
        made.correlation = correlation;
        made.is_task = task;
        return made;
    };
    for (int lane = 0; lane < 2; ++lane) {
        const int start = 1000 * lane;
        const auto add = [&](TaskKind kind, int from, int to) {
            trace.measured.slices.push_back(
                {{0, kind, lane, 0, -1}, LaneId{lane}, Nanoseconds{from}, Nanoseconds{to}, 0});
        };
        add(TaskKind::forward, start, start + 900);
        add(TaskKind::backward, 3000 + lane, 4000);
        const std::string thread = "thread " + std::to_string(lane);
        trace.tracks.push_back({RangeTrack::Kind::thread,
                                "process 1",
                                thread,
                                1,
                                {range(start, start + 900, 0, true), range(3000 + lane, 4000, 0, true)}});
        trace.tracks.push_back({RangeTrack::Kind::calls,
                                "process 1",
                                thread + ", CUDA",
                                1,
                                {range(start + 10, start + 20, static_cast<std::uint32_t>(1 + lane))}});
        const TraceRange kernel = range(start + 30, start + 50, static_cast<std::uint32_t>(1 + lane));
        const auto shared = std::find_if(trace.tracks.begin(), trace.tracks.end(), [&](const RangeTrack& track) {
            return oneStream && track.kind == RangeTrack::Kind::stream;
        });
        if (shared != trace.tracks.end()) {
            shared->ranges.push_back(kernel);
        } else {
            trace.tracks.push_back({RangeTrack::Kind::stream, "GPU 0", "stream " + std::to_string(lane), 1, {kernel}});
        }
    }
    trace.tracks.push_back(
        {RangeTrack::Kind::calls, "process 1", "thread 7, CUDA", 1, {range(3500, 3510, 9), range(4500, 4510, 10)}});
    for (RangeTrack& track : trace.tracks) {
        if (track.kind == RangeTrack::Kind::stream && track.name == "stream 0") {
            track.ranges.push_back(range(3600, 3700, 9));
            track.ranges.push_back(range(4600, 4700, 10));  // launched when no task ran
        }
    }
    return trace;
}

TEST(LaunchedKernels, OfAutogradsThreadsBelongToTheTaskOfTheirStreamsLane) {
    const auto kernels = kernelsOf(traceOfAutograd(false));
    ASSERT_TRUE(kernels);
    EXPECT_EQ(kernels->slices().numSlices(), 3U);
    const std::optional<TaskDeviceWork> work = kernels->workOf({0, TaskKind::backward, 0, 0, -1});
    ASSERT_TRUE(work);
    EXPECT_EQ(work->kernels, 1);
    EXPECT_EQ(work->launchDelay, 100);
    EXPECT_FALSE(kernels->workOf({0, TaskKind::backward, 1, 0, -1}));
}

TEST(LaunchedKernels, OfAutogradsThreadsBelongToNobodyWhereSeveralLanesOfTheirStreamRun) {
    const auto kernels = kernelsOf(traceOfAutograd(true));
    ASSERT_TRUE(kernels);
    EXPECT_EQ(kernels->slices().numSlices(), 2U);
    EXPECT_FALSE(kernels->workOf({0, TaskKind::backward, 0, 0, -1}));
}

TEST(KernelLoading, EndsWhenItIsToStop) {
    std::stop_source stop;
    stop.request_stop();
    EXPECT_FALSE(kernelsOf(traceWithKernels("stopped.sqlite"), {{"lane 0", "cuda:0"}}, stop.get_token()));
}
}  // namespace
}  // namespace pipescope
