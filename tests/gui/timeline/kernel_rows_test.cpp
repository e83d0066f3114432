#include "gui/style/task_style.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QHelpEvent>
#include <QSignalSpy>
#include <QTest>
#include <QToolTip>

namespace pipescope {
namespace {
TaskKey forwardOf(int lane, int micro_batch) {
    return {0, TaskKind::forward, lane, micro_batch, -1};
}

// Lane 0 runs F0 and F1, lane 1 runs F0, 10 us each. Kernels run late and, on two streams, concurrently:
//
//     F0 of lane 0:  gemm 4..9   add 8..12 (beside it)     F1: gemm 15..22       lane 1: none
constexpr int kMicro = 1000;
const std::vector<LaneInfo> kLanes{{"lane 0", "cuda:0"}, {"lane 1", "cuda:1"}};

std::shared_ptr<const TimelineStore> tasks() {
    const auto slice = [](int lane, int micro_batch, int start) {
        return Slice{forwardOf(lane, micro_batch), LaneId{lane}, Nanoseconds{start * kMicro},
                     Nanoseconds{(start + 10) * kMicro}, 0};
    };
    return std::make_shared<const TimelineStore>(
        Timeline{Source::measured, kLanes, {slice(0, 0, 0), slice(0, 1, 10), slice(1, 0, 10)}});
}

std::shared_ptr<const KernelStore> kernels() {
    KernelStoreBuilder builder(kLanes);
    const auto add = [&](const std::string& name, int micro_batch, int start, int end) {
        builder.add({name, forwardOf(0, micro_batch), LaneId{0}, start * kMicro, end * kMicro, 3 * kMicro});
    };
    add("gemm", 1, 15, 22);  // a table of kernels has no order
    add("gemm", 0, 4, 9);
    add("add", 0, 8, 12);
    builder.setWork(forwardOf(0, 0), {2, 0, 8 * kMicro, 8 * kMicro, 3 * kMicro});
    return std::make_shared<const KernelStore>(builder.finish());
}

TEST(KernelStore, KeepsWhatEachKernelIsThroughSortingAndOverlaps) {
    const auto store = kernels();
    ASSERT_EQ(store->slices().numSlices(), 3U);
    std::vector<std::string> found;
    for (std::uint32_t row = 0; row < store->slices().rows().size(); ++row) {
        for (std::uint32_t i = 0; i < store->slices().rows()[row].start.size(); ++i) {
            const Kernel kernel = store->kernel({row, i});
            EXPECT_EQ(kernel.launchDelay, 3 * kMicro);
            EXPECT_EQ(kernel.lane, LaneId{0});
            found.push_back(std::to_string(row) + " " + kernel.name + " of " + std::to_string(kernel.task.micro_batch) +
                            " at " + std::to_string(kernel.start / kMicro));
        }
    }
    // The third row belongs to lane 1, which has no kernels.
    EXPECT_EQ(found, (std::vector<std::string>{"0 gemm of 0 at 4", "0 gemm of 1 at 15", "1 add of 0 at 8"}));
    ASSERT_TRUE(store->workOf(forwardOf(0, 0)));
    EXPECT_EQ(store->workOf(forwardOf(0, 0))->kernels, 2);
    EXPECT_FALSE(store->workOf(forwardOf(0, 1)));
}

class KernelRows : public testing::Test {
protected:
    KernelRows() : view_(Source::measured, axis_) {
        view_.setGutter(80);
        view_.resize(1080, 300);
        view_.setStore(tasks());
        view_.setKernels(kernels());
        view_.show();
        QApplication::processEvents();
        axis_.setTotal({0, 40 * kMicro});
        axis_.show({0, 40 * kMicro});
    }
    TimeAxisModel axis_;
    TimelineView view_;
};

TEST_F(KernelRows, StandBelowTheTasksOfTheirLaneAndAboveTheNextLane) {
    const QRectF task = view_.rectOf({0, 0});
    const QRectF first = view_.kernelRect({0, 0});
    const QRectF beside = view_.kernelRect({1, 0});
    EXPECT_GE(first.top(), task.bottom());
    EXPECT_GE(beside.top(), first.bottom());
    EXPECT_GE(view_.rectOf({1, 0}).top(), beside.bottom());
    EXPECT_TRUE(view_.laneRect(LaneId{0}).contains(first.toRect()));
    EXPECT_NEAR(first.left(), view_.pixelAtTime(4 * kMicro), 1);
    EXPECT_NEAR(first.right(), view_.pixelAtTime(9 * kMicro), 1);
}

TEST_F(KernelRows, ArePaintedInTheColourOfTheirTaskWhereTheyRan) {
    const QImage image = view_.grab().toImage();
    const QRgb forward = styleOf(TaskKind::forward).color.rgb();
    const auto at = [&](double time, const QRectF& row) {
        return image.pixel(static_cast<int>(view_.pixelAtTime(static_cast<std::int64_t>(time * kMicro))),
                           static_cast<int>(row.bottom()) - 1);
    };
    const QRectF first = view_.kernelRect({0, 0});
    EXPECT_EQ(at(8.8, first), forward);
    EXPECT_NE(at(12, first), forward);
    EXPECT_EQ(at(21.8, first), forward);
    EXPECT_NE(at(30, first), forward);
    const QRectF beside = view_.kernelRect({1, 0});
    EXPECT_NE(at(7, beside), forward);
    EXPECT_EQ(at(11.8, beside), forward);
}

TEST_F(KernelRows, TellWhatTheyAreAndLeadToTheirTask) {
    const QPoint gemm = view_.kernelRect({0, 1}).center().toPoint();
    const QPoint add = view_.kernelRect({1, 0}).center().toPoint();
    EXPECT_EQ(view_.kernelAt(gemm), (SliceRef{0, 1}));
    EXPECT_EQ(view_.kernelAt(view_.rectOf({0, 0}).center().toPoint()), std::nullopt);
    EXPECT_EQ(view_.sliceAt(gemm), std::nullopt);

    QHelpEvent help(QEvent::ToolTip, add, view_.viewport()->mapToGlobal(add));
    QCoreApplication::sendEvent(view_.viewport(), &help);
    const QString text = QToolTip::text().replace(QChar(QChar::Nbsp), QLatin1Char(' '));
    for (const char* part : {"<b>add</b>", "4.000 µs", "started 3.000 µs after its launch", "forward of micro-batch 0",
                             "kernels 2", "busy 8.000 µs of 8.000 µs", "launch delay 3.000 µs"}) {
        EXPECT_TRUE(text.contains(QString::fromUtf8(part))) << part << " in " << text.toStdString();
    }

    std::optional<SliceRef> picked;
    QObject::connect(&view_, &TimelineView::picked, &view_, [&](std::optional<SliceRef> slice) { picked = slice; });
    QTest::mouseClick(view_.viewport(), Qt::LeftButton, {}, gemm);
    EXPECT_EQ(picked, (SliceRef{0, 1}));  // the second task
}

TEST_F(KernelRows, GoWithAnotherTimeline) {
    view_.setStore(tasks());
    EXPECT_EQ(view_.kernels(), nullptr);
    EXPECT_TRUE(view_.kernelRect({0, 0}).isNull());
}
}  // namespace
}  // namespace pipescope
