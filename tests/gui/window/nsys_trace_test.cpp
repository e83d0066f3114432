#include "gui/style/task_style.h"
#include "gui/timeline/track_view.h"
#include "tests/gui/window/main_window_fixture.h"
#include "tests/gui/window/nsys_export.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
using NsysTrace = MainWindowTest;

TEST_F(NsysTrace, IsShownWithItsTasksItsThreadsAndKernelsBelowTheTaskThatLaunchedThem) {
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(writeNsysExport("nsys.sqlite").string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    settle();
    ASSERT_TRUE(window_.files().document()->measured);
    EXPECT_EQ(window_.files().document()->measured->numSlices(), 2U);
    EXPECT_TRUE(measured().isVisible());
    EXPECT_FALSE(simulated().isVisible());
    EXPECT_TRUE(window_.page()->views().tracks().isVisible());
    EXPECT_FALSE(window_.files().document()->messages().isEmpty());  // says why nothing is simulated

    const SliceRef second = slice(Source::measured, {0, TaskKind::forward, 0, 1, -1});
    const QRectF bar = measured().rectOf(second);
    EXPECT_EQ(pixel(measured(), QPoint(static_cast<int>(bar.left()) + 3, static_cast<int>(bar.top()) + 2)),
              styleOf(TaskKind::forward).color);

    ASSERT_TRUE(window_.files().document()->kernels);
    const Kernel kernel = window_.files().document()->kernels->kernel({0, 0});
    EXPECT_EQ(kernel.name, "gemm");
    EXPECT_EQ(kernel.task, (TaskKey{0, TaskKind::forward, 0, 0, -1}));
    EXPECT_EQ(kernel.launchDelay, 1200);
    const QRectF below = measured().kernelRect({0, 0});
    EXPECT_GE(below.top(), bar.bottom());
    EXPECT_NEAR(below.left(), measured().pixelAtTime(2500), 1);
    const std::optional<TaskDeviceWork> work = window_.files().document()->kernels->workOf(kernel.task);
    ASSERT_TRUE(work);
    EXPECT_EQ(work->kernels, 1);
    EXPECT_EQ(work->busy, 500);
    EXPECT_EQ(work->span, 500);
}
}  // namespace
}  // namespace pipescope
