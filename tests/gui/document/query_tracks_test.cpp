#include "gui/document/query_tracks.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using CellRows = std::vector<std::vector<SqlValue>>;
using StartTimes = std::vector<std::int64_t>;

const QueryTrack kTrack{QStringLiteral("late"), QStringLiteral("SELECT ..")};

SqlResult resultOf(const std::vector<std::string>& columns, CellRows rows) {
    SqlResult result;
    for (const std::string& name : columns) {
        result.columns.push_back({name, {}, {}});
    }
    result.rows = std::move(rows);
    return result;
}

SqlValue wholeCell(std::int64_t value) {
    return value;
}

SqlValue textCell(const char* value) {
    return std::string(value);
}

TEST(QueryTracks, NeedTimesAndNamesOrTimesAndValues) {
    const auto columns = [](const std::vector<std::string>& names) { return resultOf(names, {}).columns; };
    EXPECT_TRUE(whyNoTrack(columns({"NAME", "end", "Start"})).isEmpty());
    EXPECT_TRUE(whyNoTrack(columns({"time", "value", "more"})).isEmpty());
    EXPECT_FALSE(whyNoTrack(columns({"start", "end"})).isEmpty());
    EXPECT_FALSE(whyNoTrack(columns({"value"})).isEmpty());
    EXPECT_THAT(thrown<Error>([&] { trackOf(kTrack, resultOf({"id"}, {})); }),
                testing::AllOf(HasSubstr("'late'"), HasSubstr("start, end and name")));
}

TEST(QueryTracks, AreRangesByLaneAndByStart) {
    const TrackStore store = trackOf(kTrack, resultOf({"name", "lane", "start", "end"},
                                                      {{textCell("b"), wholeCell(10), wholeCell(50), wholeCell(60)},
                                                       {textCell("a"), wholeCell(2), wholeCell(30), wholeCell(40)},
                                                       {textCell("b"), wholeCell(2), 10.4, wholeCell(20)},
                                                       {textCell("none"), wholeCell(2), SqlValue(), wholeCell(20)}}));
    ASSERT_EQ(store.rows.size(), 2U);
    EXPECT_EQ(store.rows[0].name, "late, lane 2");
    EXPECT_EQ(store.rows[1].name, "late, lane 10");
    EXPECT_EQ(store.rows[0].start, (StartTimes{10, 30}));
    EXPECT_EQ(store.rows[0].end, (StartTimes{20, 40}));
    EXPECT_THAT(store.texts, ElementsAre("b", "a"));
    EXPECT_EQ(store.textOf({0, 1}), "a");
    EXPECT_EQ(store.rows[0].group, store.rows[1].group);
}

TEST(QueryTracks, PutOverlappingRangesBelowEachOther) {
    const TrackStore store =
        trackOf(kTrack, resultOf({"start", "end", "name"}, {{wholeCell(5), wholeCell(8), textCell("inner")},
                                                            {wholeCell(0), wholeCell(10), textCell("outer")},
                                                            {wholeCell(10), wholeCell(12), textCell("after")},
                                                            {wholeCell(7), wholeCell(11), textCell("across")}}));
    ASSERT_EQ(store.rows.size(), 3U);
    EXPECT_EQ(store.rows[0].start, (StartTimes{0, 10}));
    EXPECT_EQ(store.rows[1].start, (StartTimes{5}));
    EXPECT_EQ(store.rows[2].start, (StartTimes{7}));
    for (std::size_t row = 0; row < 3; ++row) {
        EXPECT_EQ(store.rows[row].name, "late");
        EXPECT_EQ(store.rows[row].depth, static_cast<int>(row));
    }
}

TEST(QueryTracks, AreCountersByTime) {
    const TrackStore store =
        trackOf(kTrack, resultOf({"time", "value"},
                                 {{wholeCell(20), 2.5}, {wholeCell(10), wholeCell(1)}, {wholeCell(30), SqlValue()}}));
    EXPECT_TRUE(store.rows.empty());
    ASSERT_EQ(store.counters.size(), 1U);
    EXPECT_EQ(store.counters[0].name(), "late");
    EXPECT_EQ(store.counters[0].size(), 2U);
    EXPECT_EQ(store.counters[0].valueAt(15), 1);
    EXPECT_EQ(store.counters[0].valueAt(25), 2.5);
}

TEST(QueryTracks, RefuseWhatCannotBeDrawn) {
    const auto said = [](std::int64_t start, SqlValue end) {
        return thrown<Error>([&] {
            trackOf(kTrack, resultOf({"start", "end", "name"}, {{wholeCell(start), std::move(end), textCell("x")}}));
        });
    };
    EXPECT_THAT(said(20, wholeCell(10)), HasSubstr("starts at 20 ns, but ends at 10 ns"));
    EXPECT_THAT(said(0, wholeCell(std::numeric_limits<std::int64_t>::max())), HasSubstr("beyond 2^62 ns"));
    EXPECT_THAT(said(0, 1e300), HasSubstr("beyond 2^62 ns"));
    SqlResult many = resultOf({"time", "value"}, {});
    many.more = true;
    EXPECT_THAT(thrown<Error>([&] { trackOf(kTrack, many); }), HasSubstr("more than 200000 rows"));
}

TEST(QueryTracks, AreAddedBehindTheRowsOfAFile) {
    TrackStore store =
        trackOf(kTrack, resultOf({"start", "end", "name"}, {{wholeCell(0), wholeCell(1), textCell("first")}}));
    addTracks(store, trackOf({QStringLiteral("more"), {}},
                             resultOf({"start", "end", "name"}, {{wholeCell(2), wholeCell(3), textCell("second")}})));
    EXPECT_EQ(store.textOf({0, 0}), "first");
    EXPECT_EQ(store.textOf({1, 0}), "second");
}
}  // namespace
}  // namespace pipescope
