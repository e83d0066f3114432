#include "gui/timeline/track_view.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/timeline/bar_labels.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QTest>

#include <cmath>
#include <random>

namespace pipescope {
namespace {
std::shared_ptr<const TrackStore> sampleTracks() {
    TrackStore store;
    store.texts = {"", "gemm", "copy"};
    store.rows = {{{0, {0, 500}, {200, 900}}, "GPU 0", "stream 7", {1, 2}},
                  {{1, {50}, {100}}, "GPU 0", "stream 7", {2}}};
    return std::make_shared<const TrackStore>(std::move(store));
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

// A thread that is busy half of the time must not look as busy as one that never rests.
TEST(TrackStore, SaysHowMuchOfACellDenseRangesFill) {
    for (const bool summed : {false, true}) {
        TrackRow row;
        for (int i = 0; i < 100'000; ++i) {
            row.start.push_back(i * 10);
            row.end.push_back(i * 10 + (i < 50'000 ? 2 : 9));
            row.text.push_back(0);
        }
        row.start.push_back(1'000'000);  // one long range is drawn as itself
        row.end.push_back(1'100'000);
        row.text.push_back(0);
        if (summed) {
            sumBusy(row, [](std::size_t) { return true; });
        }
        const std::vector<TrackRun> runs = visibleRuns(row, {0, 0, 1'200'000}, 1200);
        EXPECT_LE(runs.size(), 300U);
        double right = 0;
        for (const TrackRun& run : runs) {
            EXPECT_GE(run.left, right - 1e-9);
            right = run.right;
            if (run.left < 490) {
                EXPECT_NEAR(run.share, 0.2, 0.01) << run.left;
            } else if (run.left > 510 && run.left < 990) {
                EXPECT_NEAR(run.share, 0.9, 0.01) << run.left;
            }
        }
        EXPECT_FALSE(runs.back().folded);
        EXPECT_NEAR(runs.back().right - runs.back().left, 100, 0.01);
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
    EXPECT_EQ(view.rangeAtPixel({at(700), y}), (SliceRef{0, 1}));
    EXPECT_EQ(view.rangeAtPixel({at(350), y}), std::nullopt);
}

TEST(TrackView, MarksRangesWithoutDurationByTicksAsLanesDo) {
    TimeAxisModel axis;
    TrackView view(axis);
    view.resize(1080, 120);
    view.setGutter(80);
    TrackStore store;
    store.texts = {"", "mark", "busy"};
    store.rows = {{{0, {300, 500, 500}, {300, 500, 900}}, "", "thread 1", {1, 1, 2}}};
    view.setStore(std::make_shared<const TrackStore>(std::move(store)));
    axis.setTotal({0, 1000});
    view.show();
    QApplication::processEvents();
    const QImage image = view.grab().toImage();
    const int y = view.rowRect(0).center().y();
    const QRgb border = timelineColors(QApplication::palette()).border.rgb();
    for (const std::int64_t time : {300, 500}) {  // alone, and where a bar begins
        const int x = static_cast<int>(std::floor(view.pixelAtTime(time)));
        EXPECT_EQ(image.pixel(x - 1, y), border) << time;
        EXPECT_NE(image.pixel(x, y), border) << time;
        EXPECT_EQ(image.pixel(x + 1, y), border) << time;
    }
}

TEST(TrackView, ShortensNamesSoThatWhatDiffersStays) {
    const QFontMetricsF metrics(QApplication::font());
    const std::string forward = "core/pipeline_parallel/schedules.py(300): forward_step";
    const std::string backward = "core/pipeline_parallel/schedules.py(400): backward_step";
    const auto in = [&](const std::string& name, double width) {
        return rangeNameIn(metrics, name, width).toStdString();
    };
    const double whole = metrics.horizontalAdvance(QString::fromStdString(backward));
    EXPECT_EQ(in(backward, whole), backward);
    EXPECT_EQ(in(backward, whole - 1), "backward_step");
    EXPECT_EQ(in("PP:0F0", metrics.horizontalAdvance(QStringLiteral("0F0")) + 1), "0F0");
    for (const double share : {0.9, 0.7, 0.5}) {
        const double room = metrics.horizontalAdvance(QStringLiteral("backward_step")) * share;
        EXPECT_NE(in(forward, room), in(backward, room)) << share;
        EXPECT_FALSE(in(forward, room).empty()) << share;
    }
    EXPECT_EQ(in(forward, 5), "") << "no lone dots";
    for (const char* wide : {"%s%n%d", "順伝播計算中", "WWWWWW"}) {
        const QString name = QString::fromUtf8(wide);
        const double dots = metrics.horizontalAdvance(QChar(0x2026));
        const double ends = metrics.horizontalAdvance(name.left(1)) + metrics.horizontalAdvance(name.right(1));
        EXPECT_EQ(in(wide, dots + ends + 1), (name.left(1) + QChar(0x2026) + name.right(1)).toStdString());
    }
    const double three = metrics.horizontalAdvance(QStringLiteral("f…p"));
    EXPECT_EQ(in("forward_step", three + 1), "") << "three letters tell no long name";
}

TEST(CounterRow, GivesTheExtremesOfEachColumn) {
    std::mt19937 random(2);
    CounterRow counter("process 1", "queue");
    std::vector<std::pair<std::int64_t, double>> points;
    std::int64_t time = 1000;
    for (int i = 0; i < 3000; ++i) {
        points.emplace_back(time, static_cast<double>(random() % 1000) - 500);
        counter.add(points.back().first, points.back().second);
        time += static_cast<int>(random() % 20);  // some at one time
    }
    EXPECT_EQ(counter.valueAt(999), std::nullopt);
    EXPECT_EQ(counter.valueAt(time + 5), points.back().second);
    constexpr int kWidth = 97;
    for (const double part : {1.5, 0.3, 0.01}) {
        const TimeWindow window{500 + time / 4, 0.25, static_cast<double>(time) * part};
        const std::vector<CounterColumn> columns = counter.columns(window, kWidth);
        ASSERT_EQ(columns.size(), std::size_t{kWidth});
        for (int x = 0; x < kWidth; ++x) {
            // Brute force: what holds at the left edge, and every point within.
            const std::int64_t left = timeAt(window, kWidth, x);
            const std::int64_t right = timeAt(window, kWidth, x + 1);
            std::optional<double> low;
            std::optional<double> high;
            for (const auto& [at, value] : points) {
                if (at < left) {
                    low = high = value;
                } else if (at < right) {
                    low = std::min(low.value_or(value), value);
                    high = std::max(high.value_or(value), value);
                }
            }
            const CounterColumn& column = columns[static_cast<std::size_t>(x)];
            ASSERT_EQ(column.known, low.has_value());
            if (low) {
                ASSERT_EQ(column.low, *low);
                ASSERT_EQ(column.high, *high);
            }
        }
    }
}

std::shared_ptr<const TrackStore> groupedTracks() {
    TrackStore store;
    store.texts = {"", "launch 1", "gemm", "launch 2"};
    store.rows = {{{0, {300, 600}, {400, 800}}, "GPU 0", "stream 7", {2, 2}},
                  {{0, {100, 200}, {150, 250}}, "process 1", "thread 1", {1, 3}}};
    CounterRow& counter = store.counters.emplace_back("GPU 0", "memory of GPU 0");
    counter.add(100, 1024);
    counter.add(500, 3 * 1024);
    store.setArrows({{{1, 0}, {0, 0}}, {{1, 1}, {0, 1}}, {{1, 0}, {0, 0}}});
    return std::make_shared<const TrackStore>(std::move(store));
}

TEST(TrackStore, KnowsTheArrowsOfARangeInBothDirections) {
    const auto store = groupedTracks();
    EXPECT_EQ(store->arrows.size(), 2U);
    EXPECT_EQ(store->arrowsFrom({1, 0}, 9), (std::vector<SliceRef>{{0, 0}}));
    EXPECT_EQ(store->arrowsTo({0, 1}, 9), (std::vector<SliceRef>{{1, 1}}));
    EXPECT_TRUE(store->arrowsTo({1, 0}, 9).empty());
    EXPECT_TRUE(store->arrowsFrom({1, 0}, 0).empty());
    EXPECT_EQ(nextOfText(*store, {0, 0}, 1), (SliceRef{0, 1}));
    EXPECT_EQ(nextOfText(*store, {0, 0}, -1), std::nullopt);
    EXPECT_EQ(nextOfText(*store, {1, 0}, 1), std::nullopt);
}

TEST(TrackView, GroupsRowsByProcessAndDeviceAndHidesAGroup) {
    TimeAxisModel axis;
    TrackView view(axis);
    view.resize(1080, 300);
    view.setGutter(150);
    view.setStore(groupedTracks());
    axis.setTotal({0, 1000});
    view.show();
    QApplication::processEvents();
    EXPECT_LT(view.groupRect("GPU 0").bottom(), view.rowRect(0).top() + 1);
    EXPECT_LT(view.rowRect(0).bottom(), view.counterRect(0).top());
    EXPECT_LT(view.counterRect(0).bottom(), view.groupRect("process 1").top());
    EXPECT_LT(view.groupRect("process 1").bottom(), view.rowRect(1).top() + 1);
    const QImage image = view.grab().toImage();
    const auto at = [&](std::int64_t time) { return static_cast<int>(view.pixelAtTime(time)); };
    const QRgb ground = timelineColors(QApplication::palette()).lane.rgb();
    const int low = view.counterRect(0).bottom() - 1;
    const int high = view.counterRect(0).top() + 3;
    EXPECT_EQ(image.pixel(at(50), low), ground);  // before the first point
    EXPECT_NE(image.pixel(at(300), low), ground);
    EXPECT_EQ(image.pixel(at(300), high), ground);
    EXPECT_NE(image.pixel(at(700), high), ground);
    EXPECT_EQ(view.counterAtPixel({at(300), low}), std::optional<std::size_t>(0));
    EXPECT_EQ(view.valueText(0, 3 * 1024), formatBytes(3 * 1024));
    EXPECT_TRUE(view.onlyGroup().isEmpty());

    QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, view.groupRect("GPU 0").center());
    EXPECT_TRUE(view.isCollapsed("GPU 0"));
    EXPECT_TRUE(view.rowRect(0).isEmpty());
    EXPECT_TRUE(view.counterRect(0).isEmpty());
    EXPECT_FALSE(view.rowRect(1).isEmpty());
    view.revealCounter(0);
    EXPECT_FALSE(view.isCollapsed("GPU 0"));
}

TEST(TrackView, NamesItsOnlyProcessAndAConstantCounterByItsValue) {
    auto store = std::make_shared<TrackStore>();
    store->texts = {"a"};
    store->rows.push_back({{0, {0}, {10}}, "process 7 (trainer)", "thread 1", {0}});
    CounterRow constant("process 7 (trainer)", "queue");
    constant.add(0, 42);
    constant.add(5, 42);
    CounterRow wide("process 7 (trainer)", "range");
    wide.add(0, -1e300);
    wide.add(5, 1e300);
    store->counters = {constant, wide};
    TimeAxisModel axis;
    TrackView view(axis);
    view.setStore(store);
    EXPECT_EQ(view.onlyGroup(), QStringLiteral("process 7 (trainer)"));
    EXPECT_EQ(view.extentText(0), QStringLiteral("42"));
    EXPECT_EQ(view.extentText(1), QStringLiteral("-1e+300 to 1e+300"));
}

TEST(TrackView, DrawsArrowsOfTheSelectedRange) {
    TimeAxisModel axis;
    TrackView view(axis);
    view.resize(1080, 300);
    view.setGutter(150);
    view.setStore(groupedTracks());
    axis.setTotal({0, 1000});
    view.show();
    QApplication::processEvents();
    std::optional<SliceRef> picked;
    QObject::connect(&view, &TrackView::picked, [&](std::optional<SliceRef> range) { picked = range; });
    const auto at = [&](std::int64_t time) { return static_cast<int>(view.pixelAtTime(time)); };
    QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, {at(125), view.rowRect(1).center().y()});
    ASSERT_EQ(picked, (SliceRef{1, 0}));
    const QImage before = view.grab().toImage();
    PartSelection part;
    part.kind = PartSelection::Kind::range;
    part.range = *picked;
    axis.select(part);
    const QImage after = view.grab().toImage();
    const auto changes = [&](const QRect& where) {
        int count = 0;
        for (int x = where.left(); x <= where.right(); ++x) {
            for (int y = where.top(); y <= where.bottom(); ++y) {
                count += before.pixel(x, y) != after.pixel(x, y) ? 1 : 0;
            }
        }
        return count;
    };
    const int gap = view.counterRect(0).top();
    EXPECT_GT(changes({at(151), gap, at(299) - at(151), view.counterRect(0).height()}), 5);  // the way to the kernel
    EXPECT_EQ(changes({at(650), gap, 100, view.counterRect(0).height()}), 0);  // not to that of another call
    QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, {at(950), view.rowRect(1).center().y()});
    EXPECT_EQ(picked, std::nullopt);
}

// The time grew with the square of the number: minutes for this many.
TEST(TrackView, ArrangesAsManyProcessesAsThreads) {
    constexpr int kProcesses = 100'000;
    TrackStore store;
    store.texts = {"x"};
    for (int k = 0; k < kProcesses; ++k) {
        const std::string name = "process " + std::to_string(k);
        store.rows.push_back({{0, {0}, {100}}, name, "thread", {0}});
    }
    TimeAxisModel axis;
    TrackView view(axis);
    QElapsedTimer timer;
    timer.start();
    view.setStore(std::make_shared<const TrackStore>(std::move(store)));
    EXPECT_GT(view.rowRect(kProcesses - 1).top(), view.rowRect(0).top() + kProcesses);
    EXPECT_LT(timer.elapsed(), 10'000);  // ms; measured: below 200
}
}  // namespace
}  // namespace pipescope
