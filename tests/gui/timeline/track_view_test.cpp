#include "gui/timeline/track_view.h"
#include "gui/style/task_style.h"

#include <gtest/gtest.h>

#include <QApplication>

#include <random>

namespace pipescope {
namespace {
std::shared_ptr<const TrackStore> sampleTracks() {
    TrackStore store;
    store.texts = {"", "gemm", "copy"};
    store.rows = {{"GPU 0", "stream 7", 0, {0, 500}, {200, 900}, {1, 2}}, {"GPU 0", "stream 7", 1, {50}, {100}, {2}}};
    return std::make_shared<const TrackStore>(std::move(store));
}

TEST(TrackStore, FindsTheRangeUnderATime) {
    const auto store = sampleTracks();
    EXPECT_EQ(rangeAt(*store, 0, 100, 0), (TrackRef{0, 0}));
    EXPECT_EQ(rangeAt(*store, 0, 300, 0), std::nullopt);
    EXPECT_EQ(rangeAt(*store, 0, 498, 5), (TrackRef{0, 1}));
    EXPECT_EQ(rangeAt(*store, 0, 905, 5), (TrackRef{0, 1}));
    EXPECT_EQ(store->range(), (TimeRange{0, 900}));
}

TEST(TrackStore, CoversEveryRangeWithOneRunOrAnother) {
    std::mt19937 random(1);
    TrackRow row;
    std::int64_t time = 0;
    for (int i = 0; i < 20'000; ++i) {
        const std::int64_t start = time + static_cast<int>(random() % 50);
        time = start + static_cast<int>(random() % (i % 100 == 0 ? 20'000 : 60));
        row.start.push_back(start);
        row.end.push_back(time);
        row.text.push_back(0);
    }
    for (const double part : {1.0, 0.1, 0.001}) {
        const TimeWindow window{time / 3, 0.5, static_cast<double>(time) * part};
        const std::vector<TrackRun> runs = visibleRuns(row, window, 500);
        EXPECT_LE(runs.size(), 1002U);
        std::size_t run = 0;
        for (std::size_t i = 0; i < row.start.size(); ++i) {
            const double left = pixelOf(window, 500, row.start[i]);
            if (pixelOf(window, 500, row.end[i]) <= 0 || left < 0 || left >= 500) {
                continue;
            }
            while (run < runs.size() && runs[run].right <= left) {
                ++run;
            }
            ASSERT_LT(run, runs.size());
            EXPECT_LE(runs[run].left, left);
        }
    }
}

TEST(TrackView, PaintsRangesAtTheirPixelsAndNothingBetween) {
    TimeAxisModel axis;
    TrackView view(axis);
    view.resize(1080, 120);
    view.setGutter(80);
    view.setStore(sampleTracks());
    axis.setTotal({0, 1000});
    view.show();
    QApplication::processEvents();
    const QImage image = view.grab().toImage();
    const int y = view.rowRect(0).top() + 1;
    const auto at = [&](std::int64_t time) { return static_cast<int>(view.pixelAtTime(time)); };
    const QRgb ground = timelineColors(QApplication::palette()).lane.rgb();
    EXPECT_NE(image.pixel(at(150), y), ground);
    EXPECT_EQ(image.pixel(at(350), y), ground);
    EXPECT_NE(image.pixel(at(700), y), ground);
    EXPECT_NE(image.pixel(at(75), view.rowRect(1).top() + 1), ground);
    EXPECT_EQ(view.rangeAtPixel({at(700), y}), (TrackRef{0, 1}));
    EXPECT_EQ(view.rangeAtPixel({at(350), y}), std::nullopt);
}
}  // namespace
}  // namespace pipescope
