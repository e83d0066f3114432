#include "gui/document/area_statistics.h"

#include "gui/style/task_style.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::int64_t kEnd = 200;

/// Lane 0: forwards of 10, 20 and 40 ns. Lane 1: one backward of 30 ns. The first two forwards launched kernels.
TraceDocument twoLanes() {
    Timeline timeline{Source::measured, {{"lane 0", ""}, {"lane 1", ""}}, {}};
    KernelStoreBuilder kernels(timeline.lanes);
    const auto add = [&](TaskKind kind, int lane, int micro_batch, int start, int end) {
        timeline.slices.push_back(
            {{0, kind, lane, micro_batch, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0});
        return timeline.slices.back().key;
    };
    const auto launch = [&](const TaskKey& task, const std::string& name, int start, int end) {
        kernels.add({name, task, LaneId{0}, start, end, 1});
    };
    const TaskKey first = add(TaskKind::forward, 0, 0, 0, 10);
    const TaskKey second = add(TaskKind::forward, 0, 1, 10, 30);
    add(TaskKind::backward, 1, 0, 20, 50);
    add(TaskKind::forward, 0, 2, 60, 100);
    launch(first, "gemm", 2, 6);
    launch(first, "add", 4, 8);      // beside it
    launch(second, "gemm", 28, 34);  // until after its task
    TraceDocument document;
    document.measured = std::make_shared<const TimelineStore>(timeline);
    document.kernels = std::make_shared<const KernelStore>(kernels.finish());
    return document;
}

/// A thread with a call in a call, and a stream.
TraceDocument threads() {
    auto store = std::make_shared<TrackStore>();
    store->texts = {"outer", "inner", "gemm"};
    const auto add = [&](const char* group, const char* name, int depth, RanOn on, std::vector<std::uint32_t> texts,
                         std::vector<std::int64_t> starts, std::vector<std::int64_t> ends) {
        TrackRow row;
        row.group = group;
        row.name = name;
        row.depth = depth;
        row.on = on;
        row.text = std::move(texts);
        row.start = std::move(starts);
        row.end = std::move(ends);
        store->rows.push_back(std::move(row));
    };
    add("process 1", "thread 2", 0, RanOn::host, {0, 0}, {0, 60}, {50, 80});
    add("process 1", "thread 2", 1, RanOn::host, {1}, {10}, {30});
    add("GPU 0", "stream 7", 0, RanOn::device, {2, 2}, {20, 90}, {25, 100});
    TraceDocument document;
    document.tracks = store;
    return document;
}

const CallRow& call(const AreaStatistics& statistics, std::initializer_list<const char*> names) {
    const CallRow* found = nullptr;
    std::optional<std::size_t> outer;
    for (const char* name : names) {
        const auto at = std::ranges::find_if(statistics.calls, [&](const CallRow& row) {
            return row.outer == outer && row.name == QString::fromUtf8(name);
        });
        EXPECT_NE(at, statistics.calls.end()) << name;
        if (at == statistics.calls.end()) {
            return statistics.calls.front();
        }
        found = &*at;
        outer = static_cast<std::size_t>(at - statistics.calls.begin());
    }
    return *found;
}

TEST(AreaStatistics, CountTasksByHand) {
    const TraceDocument document = twoLanes();
    EXPECT_EQ(countable(document), (std::vector{Counted::measured_tasks, Counted::kernels}));
    const std::vector<StatisticsRow> rows = areaStatistics(document, Counted::measured_tasks, {0, 80}).rows;
    ASSERT_EQ(rows.size(), 4U) << "kernels are no rows of their own";
    EXPECT_EQ(rows[0].kind, TaskKind::forward);
    EXPECT_FALSE(rows[0].place);
    EXPECT_EQ(rows[0].lengths, (LengthFigures{3, 70, 20, 40}));
    EXPECT_EQ(rows[0].inside, 50);
    EXPECT_DOUBLE_EQ(rows[0].share, 50.0 / 160);  // two lanes of 80 ns
    EXPECT_EQ(rows[0].self, 50 - 6 - 2) << "2 to 8 ns, and 28 to 30";
    EXPECT_EQ(rows[1].place, 0U);
    EXPECT_EQ(rows[1].placeName, QStringLiteral("lane 0"));
    EXPECT_DOUBLE_EQ(rows[1].share, 50.0 / 80);
    EXPECT_EQ(rows[3].kind, TaskKind::backward);
    EXPECT_EQ(rows[3].placeName, QStringLiteral("lane 1"));
    EXPECT_DOUBLE_EQ(rows[3].lengths.mean(), 30);
    EXPECT_TRUE(areaStatistics(document, Counted::measured_tasks, {200, 300}).rows.empty());
}

TEST(AreaStatistics, ShowTheKernelsOfATaskWithinIt) {
    const AreaStatistics statistics = areaStatistics(twoLanes(), Counted::measured_tasks, {0, kEnd});
    EXPECT_EQ(call(statistics, {"lane 0", "forward"}).count, 3);
    EXPECT_EQ(call(statistics, {"lane 0", "forward", "gemm"}).count, 2);
    EXPECT_EQ(call(statistics, {"lane 0", "forward", "gemm"}).inside, 10);
    EXPECT_EQ(call(statistics, {"lane 0", "forward", "gemm"}).longest.of, Counted::kernels);
    EXPECT_EQ(call(statistics, {"lane 0", "forward", "add"}).inside, 4);
    EXPECT_EQ(call(statistics, {"lane 1", "backward"}).self, 30);
}

TEST(AreaStatistics, CountKernelsByName) {
    const std::vector<StatisticsRow> rows = areaStatistics(twoLanes(), Counted::kernels, {0, kEnd}).rows;
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[0].name, QStringLiteral("gemm")) << "the most time first";
    EXPECT_EQ(rows[0].lengths, (LengthFigures{2, 10, 5, 6}));
    EXPECT_EQ(rows[2].name, QStringLiteral("add"));
    EXPECT_FALSE(rows[0].kind);
}

TEST(AreaStatistics, CountThreadsAndStreamsApart) {
    const TraceDocument document = threads();
    EXPECT_EQ(countable(document), (std::vector{Counted::threads, Counted::streams}));
    const AreaStatistics statistics = areaStatistics(document, Counted::threads, {0, 100});
    ASSERT_EQ(statistics.rows.size(), 4U);
    EXPECT_EQ(statistics.rows[0].name, QStringLiteral("outer"));
    EXPECT_EQ(statistics.rows[0].inside, 70);
    EXPECT_EQ(statistics.rows[0].self, 50) << "without the inner call";
    EXPECT_EQ(statistics.rows[1].placeName, QStringLiteral("process 1 · thread 2"));
    EXPECT_DOUBLE_EQ(statistics.rows[1].share, 0.7);
    EXPECT_EQ(call(statistics, {"process 1 · thread 2", "outer", "inner"}).inside, 20);
    EXPECT_EQ(areaStatistics(document, Counted::streams, {0, 100}).rows.at(0).lengths, (LengthFigures{2, 15, 7, 10}));
    EXPECT_EQ(areaStatistics(document, Counted::streams, {95, 100}).rows.at(0).inside, 5);
}

TEST(AreaStatistics, HaveAHistogramOverTheWholeFile) {
    const TraceDocument document = twoLanes();
    const std::vector<LengthBin> bins = lengthsOf(
        itemsOf(document, Counted::measured_tasks, static_cast<std::uint32_t>(TaskKind::forward), {}), {0, 20});
    std::int64_t count = 0;
    std::int64_t inside = 0;
    for (const LengthBin& bin : bins) {
        count += bin.count;
        inside += bin.inside;
    }
    EXPECT_EQ(count, 3);
    EXPECT_EQ(inside, 2) << "the third one runs later";
    // The number of a name is that of any range.
    const StatisticsRow add = areaStatistics(document, Counted::kernels, {5, 9}).rows.front();
    for (const StatisticsRow& row : areaStatistics(document, Counted::kernels, {0, 30}).rows) {
        std::int64_t kernels = 0;
        for (const LengthBin& bin : lengthsOf(itemsOf(document, Counted::kernels, row.number, {}), {0, 9})) {
            kernels += bin.count;
        }
        EXPECT_EQ(kernels, row.name == QStringLiteral("gemm") ? 2 : 1);
        EXPECT_TRUE(row.name != add.name || row.number == add.number);
    }
    EXPECT_TRUE(itemsOf(document, Counted::measured_tasks, static_cast<std::uint32_t>(TaskKind::forward), 1U).empty())
        << "lane 1 runs none";
}

TEST(AreaStatistics, StopBeforeTheFirstItemIsCollected) {
    const auto forward = static_cast<std::uint32_t>(TaskKind::forward);
    EXPECT_EQ(itemsOf(twoLanes(), Counted::measured_tasks, forward, {}).size(), 3U);
    EXPECT_TRUE(itemsOf(twoLanes(), Counted::measured_tasks, forward, {}, [] { return true; }).empty());
}

TEST(AreaStatistics, AskFindForTheLengthsOfABar) {
    const std::vector<StatisticsRow> rows = areaStatistics(twoLanes(), Counted::measured_tasks, {0, 80}).rows;
    EXPECT_EQ(queryOf(rows[0], Counted::measured_tasks, {20, 25, 0, 0}), QStringLiteral("forward >=20ns <25ns"));
    EXPECT_EQ(queryOf(rows[1], Counted::measured_tasks, {20, 25, 0, 0}), QStringLiteral("forward lane 0 >=20ns <25ns"));
    const StatisticsRow kernel = areaStatistics(twoLanes(), Counted::kernels, {0, kEnd}).rows[0];
    EXPECT_EQ(queryOf(kernel, Counted::kernels, {0, 2'000, 0, 0}), QStringLiteral("\"gemm\" >=0ns <2us"));
}
}  // namespace
}  // namespace pipescope
