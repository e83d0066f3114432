#include "gui/document/task_query.h"

#include "gui/document/document_loader.h"
#include "gui/document/task_rows.h"
#include "gui/document/task_statistics.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
class TaskQueryTest : public testing::Test {
protected:
    static std::shared_ptr<const TraceDocument> document() {
        static const auto loaded = [] {
            const auto path = temporaryPath("query.sqlite");
            writeSampleTrace(path);
            return loadTrace(QString::fromStdString(path.string()));
        }();
        return loaded;
    }

    static std::shared_ptr<const TaskRows> list(const QString& text, TaskOrder order = {}) {
        return TaskRows::make(document(), Source::measured, 1, *parseTaskQuery(text, *document()), order);
    }

    /// Keys found by a text in step 1.
    static std::vector<TaskKey> found(const QString& text) {
        std::vector<TaskKey> keys;
        const auto rows = list(text + QStringLiteral(" step 1"));
        for (std::size_t row = 0; row < rows->size(); ++row) {
            keys.push_back(rows->at(row).slice.key);
        }
        return keys;
    }
};

TEST_F(TaskQueryTest, ReadsWhatStandsOnTheBars) {
    const std::vector<TaskKey> expected{{1, TaskKind::forward, 0, 3, -1}, {1, TaskKind::forward, 1, 3, -1}};
    EXPECT_EQ(found(QStringLiteral("F3")), expected);
    EXPECT_EQ(found(QStringLiteral("f 3")), expected);
    EXPECT_EQ(found(QStringLiteral("forward mb3")), expected);
    EXPECT_EQ(found(QStringLiteral("1F3")), std::vector<TaskKey>{expected[1]}) << "as on a lane of several partitions";
    EXPECT_EQ(found(QStringLiteral("i3")), found(QStringLiteral("b3"))) << "the half of a split backward";
}

TEST_F(TaskQueryTest, TakesTheMicroBatchBeforeThePartition) {
    const std::vector<TaskKey> expected{{1, TaskKind::backward, 1, 2, -1}};
    EXPECT_EQ(found(QStringLiteral("backward 2 1")), expected);
    EXPECT_EQ(found(QStringLiteral("backward (2, 1)")), expected);
    EXPECT_EQ(found(QStringLiteral("backward of micro-batch 2 on partition 1")), expected);
    EXPECT_EQ(found(QStringLiteral("P1 B2")), expected);
    EXPECT_EQ(found(QStringLiteral("backw lane 1 mb 2")), expected);
}

TEST_F(TaskQueryTest, FindsThePartitionOfALayer) {
    const std::vector<TaskKey> expected{{1, TaskKind::backward, 1, 2, -1}};
    EXPECT_EQ(found(QStringLiteral("B2 layer layer1")), expected);
    EXPECT_EQ(found(QStringLiteral("B2 layer 1")), expected);
    EXPECT_FALSE(parseTaskQuery(QStringLiteral("layer transformer"), *document()));
}

TEST_F(TaskQueryTest, RefusesWordsWithoutMeaning) {
    for (const char* text : {"hello", "F3 world", "mb", "step x", "backward 1 2 3", "layer", "partition -1"}) {
        EXPECT_FALSE(parseTaskQuery(QString::fromLatin1(text), *document())) << text;
    }
    EXPECT_EQ(parseTaskQuery(QString(), *document()), TaskQuery{});
}

TEST_F(TaskQueryTest, ListsEveryTaskWithItsTwin) {
    const auto rows = list({});
    ASSERT_EQ(rows->size(), document()->measured->numSlices());
    for (std::size_t row = 0; row < rows->size(); ++row) {
        const TaskRow each = rows->at(row);
        EXPECT_EQ(each.measured, each.slice.duration().count());
        const auto twin = twinOf(*document(), Source::measured, rows->sliceAt(row), 1);
        ASSERT_EQ(each.simulated.has_value(), twin.has_value());
        if (twin) {
            EXPECT_EQ(*each.simulated, document()->simulated->slice(*twin).duration().count());
        }
        EXPECT_EQ(rows->rowOf(rows->sliceAt(row)), row);
    }
}

TEST_F(TaskQueryTest, SortsByEveryColumnInBothDirections) {
    for (int column = 0; column < kTaskColumns; ++column) {
        const auto up = list({}, {static_cast<TaskColumn>(column), false});
        const auto down = list({}, {static_cast<TaskColumn>(column), true});
        ASSERT_EQ(up->size(), down->size());
        EXPECT_EQ(up->size(), up->total());
    }
    const auto longest = list({}, {TaskColumn::measured, true});
    const auto changed = list(QStringLiteral("backward"), {TaskColumn::difference, false});
    for (std::size_t row = 1; row < longest->size(); ++row) {
        EXPECT_GE(*longest->at(row - 1).measured, *longest->at(row).measured);
    }
    for (std::size_t row = 1; row < changed->size(); ++row) {
        EXPECT_LE(*changed->at(row - 1).difference(), *changed->at(row).difference());
    }
}

TEST_F(TaskQueryTest, StopsListingWhenCancelled) {
    EXPECT_EQ(TaskRows::make(document(), Source::measured, 1, {}, {}, [] { return true; }), nullptr);
}

TEST(TaskStatistics, CountsByHand) {
    // Lane 0: forwards of 10, 20 and 40 ns, the last one half outside the range. Lane 1: one backward of 30 ns.
    Timeline timeline{Source::measured, {{"lane 0", ""}, {"lane 1", ""}}, {}};
    const auto add = [&](TaskKind kind, int lane, int micro_batch, int start, int end) {
        timeline.slices.push_back(
            {{0, kind, lane, micro_batch, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0});
    };
    add(TaskKind::forward, 0, 0, 0, 10);
    add(TaskKind::forward, 0, 1, 10, 30);
    add(TaskKind::backward, 1, 0, 20, 50);
    add(TaskKind::forward, 0, 2, 60, 100);
    const auto statistics = taskStatistics(TimelineStore(timeline), {0, 80});
    ASSERT_EQ(statistics.size(), 4u);
    EXPECT_EQ(statistics[0].kind, TaskKind::forward);
    EXPECT_FALSE(statistics[0].lane);
    EXPECT_EQ(statistics[0].count, 3);
    EXPECT_EQ(statistics[0].total, 70);
    EXPECT_EQ(statistics[0].median, 20);
    EXPECT_EQ(statistics[0].p95, 38) << "between 20 and 40";
    EXPECT_DOUBLE_EQ(statistics[0].busyShare, 50.0 / 160);  // two lanes of 80 ns
    EXPECT_EQ(statistics[1].lane, LaneId{0});
    EXPECT_DOUBLE_EQ(statistics[1].busyShare, 50.0 / 80);
    EXPECT_EQ(statistics[0].inside, 50);
    EXPECT_EQ(statistics[1].inside, 50);
    EXPECT_EQ(statistics[3].kind, TaskKind::backward);
    EXPECT_EQ(statistics[3].lane, LaneId{1});
    EXPECT_DOUBLE_EQ(statistics[3].mean(), 30);
    EXPECT_TRUE(taskStatistics(TimelineStore(timeline), {200, 300}).empty());
}
}  // namespace
}  // namespace pipescope
