#include "gui/document/task_query.h"

#include "base/sample_statistics.h"
#include "gui/document/document_loader.h"
#include "gui/document/task_rows.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

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

TEST_F(TaskQueryTest, KeepsTasksOfTheseLengths) {
    const std::int64_t some = *list(QStringLiteral("forward"))->at(0).measured;
    const LengthLimits limits =
        parseTaskQuery(QStringLiteral("forward ") + lengthQuery(some, some + 1), *document())->lengths;
    EXPECT_EQ(limits, (LengthLimits{some, some}));
    const auto all = list(QStringLiteral("forward"));
    const auto kept = list(QStringLiteral("forward ") + lengthQuery(some, some + 1));
    const auto rest = list(QStringLiteral("forward >%1ns").arg(some));
    const auto below = list(QStringLiteral("forward <%1ns").arg(some));
    EXPECT_GT(kept->size(), 0U);
    EXPECT_EQ(kept->size() + rest->size() + below->size(), all->size());
    EXPECT_EQ(list(QStringLiteral(">=0ns"))->size(), document()->measured->numSlices()) << "of any kind";
}

TEST_F(TaskQueryTest, ComparesLengthsWithTheMedianOfTasksAlike) {
    const auto all = list({});
    std::map<std::pair<TaskKind, int>, std::vector<std::int64_t>> lengths;
    for (std::size_t row = 0; row < all->size(); ++row) {
        const Slice& slice = all->at(row).slice;
        lengths[{slice.key.kind, slice.key.partition}].push_back(slice.duration().count());
    }
    std::size_t longer = 0;
    for (std::size_t row = 0; row < all->size(); ++row) {
        const Slice& slice = all->at(row).slice;
        const auto middle = static_cast<double>(median(lengths[{slice.key.kind, slice.key.partition}]));
        longer += static_cast<double>(slice.duration().count()) > 1.01 * middle ? 1 : 0;
    }
    const auto found = list(QStringLiteral("> 1.01x"));
    EXPECT_GT(found->size(), 0U);
    EXPECT_EQ(found->size(), longer);
    EXPECT_EQ(list(QStringLiteral("<=1,01x"))->size(), all->size() - longer);
    EXPECT_LT(list(QStringLiteral("backward >1.01×"))->size(), longer);
    EXPECT_EQ(list(QStringLiteral(">100x"))->size(), 0U);
}

TEST(LengthQuery, IsReadAsItIsWritten) {
    for (const std::int64_t from : {0LL, 1LL, 999LL, 1'000LL, 1'500LL, 20'000'000LL, 12'345'678LL, 2'500'000'000LL}) {
        QString text = QStringLiteral("a  ") + lengthQuery(from, from * 2 + 7);
        EXPECT_EQ(takeLengths(text), (LengthLimits{from, from * 2 + 6})) << from;
        EXPECT_EQ(text, QStringLiteral("a"));
    }
    EXPECT_EQ(lengthQuery(20'000'000, 25'000'000), QStringLiteral(">=20ms <25ms"));
    EXPECT_EQ(lengthQuery(1'200, 2'500'000'000), QStringLiteral(">=1.2us <2.5s"));
    QString text = QStringLiteral("> 1,5 µs");
    EXPECT_EQ(takeLengths(text).least, 1'501);
    EXPECT_TRUE(text.isEmpty());
    text = QStringLiteral("vector<int> a<2ms x > y");
    EXPECT_TRUE(takeLengths(text).acceptAll()) << "a name with signs of its own";
    EXPECT_EQ(text, QStringLiteral("vector<int> a<2ms x > y"));
}
}  // namespace
}  // namespace pipescope
