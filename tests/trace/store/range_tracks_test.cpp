#include "trace/store/range_tracks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
using testing::ElementsAre;

RangeTrack track_of(const std::vector<std::pair<int, int>>& ranges) {
    RangeTrack track;
    for (const auto& [start, end] : ranges) {
        track.ranges.emplace_back();
        track.ranges.back().start = Nanoseconds{start};
        track.ranges.back().end = Nanoseconds{end};
    }
    return track;
}

std::vector<int> rows_of(RangeTrack track) {
    arrange(track);
    std::vector<int> rows;
    for (const TraceRange& range : track.ranges) {
        rows.push_back(range.row);
    }
    return rows;
}

TEST(RangeTracks, GiveNestedRangesTheirDepth) {
    EXPECT_THAT(rows_of(track_of({{20, 30}, {0, 100}, {0, 50}, {60, 90}, {100, 110}})), ElementsAre(0, 1, 2, 1, 0));
    EXPECT_THAT(rows_of(track_of({{0, 10}, {0, 10}})), ElementsAre(0, 1));
    EXPECT_THAT(rows_of(track_of({{0, 10}, {10, 10}, {10, 20}})), ElementsAre(0, 0, 1));
}

TEST(RangeTracks, GiveOverlappingRangesRowsOfTheirOwn) {
    EXPECT_THAT(rows_of(track_of({{0, 10}, {5, 15}, {12, 20}})), ElementsAre(0, 1, 0));
}

TEST(RangeTracks, LetNoTwoRangesOfARowOverlap) {
    std::mt19937 random(7);
    std::vector<std::pair<int, int>> ranges;
    for (int k = 0; k < 300; ++k) {
        const int start = static_cast<int>(random() % 1000);
        ranges.emplace_back(start, start + static_cast<int>(random() % 60));
    }
    RangeTrack track = track_of(ranges);
    arrange(track);
    std::vector<Nanoseconds> ends(track.rows, Nanoseconds::min());
    for (const TraceRange& range : track.ranges) {
        EXPECT_GE(range.start, ends[range.row]);
        ends[range.row] = range.end;
    }
}

TEST(RangeTracks, LeaveOutAndCountRangesThatEndBeforeTheyStart) {
    RangeTrack track = track_of({{10, 5}, {10, 10}, {20, 19}});
    EXPECT_EQ(arrange(track), 2u);
    ASSERT_EQ(track.ranges.size(), 1u);
    EXPECT_EQ(track.ranges[0].end, Nanoseconds{10});

    OpenedTrace trace;
    trace.tracks = {track_of({{10, 5}}), track_of({{0, 1}})};
    arrange_tracks(trace, NameTable());
    EXPECT_EQ(trace.tracks.size(), 1u) << "a track of nothing else is empty";
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_EQ(trace.diagnostics[0].text, "1 range ends before it starts and is left out; the trace may be damaged");
    arrange_tracks(trace, NameTable());
    EXPECT_EQ(trace.diagnostics.size(), 1u) << "nothing was left out";
}

TEST(RangeTracks, AreSortedByTheNumbersInTheirNames) {
    std::vector<RangeTrack> tracks;
    for (const char* name : {"stream 12", "stream 7", "stream 070", "nothing in it"}) {
        tracks.push_back(track_of({{0, 1}}));
        tracks.back().name = name;
    }
    tracks.back().ranges.clear();
    arrange(tracks);
    ASSERT_EQ(tracks.size(), 3u);
    EXPECT_EQ(tracks[0].name, "stream 7");
    EXPECT_EQ(tracks[1].name, "stream 12");
    EXPECT_EQ(tracks[2].name, "stream 070");
}

// Below the stream, not on it: a stream's busy time is that of its work.
TEST(RangeTracks, KeepAnnotationsBesideTheirStream) {
    NameTable names;
    OpenedTrace trace;
    for (const char* name : {"stream 7", "stream 13"}) {
        trace.tracks.push_back(track_of({{0, 100}, {10, 20}, {50, 60}}));
        trace.tracks.back().kind = RangeTrack::Kind::stream;
        trace.tracks.back().name = name;
        trace.tracks.back().ranges[0].category = names.number_of("gpu_user_annotation");
        trace.tracks.back().ranges[1].category = names.number_of("kernel");
        trace.tracks.back().ranges[2].category = names.number_of("cuda_sync");
    }
    trace.tracks.push_back(track_of({{0, 100}}));
    trace.tracks.back().name = "stream 20";
    trace.tracks.back().ranges[0].category = names.number_of("gpu_user_annotation");
    arrange_tracks(trace, names);
    std::vector<std::string> texts;
    for (const RangeTrack& track : trace.tracks) {
        texts.push_back(track.name + ": " + std::string(to_string(track.kind)) + " " +
                        std::to_string(track.ranges.size()));
    }
    EXPECT_THAT(
        texts, testing::ElementsAre("stream 7: stream 1", "stream 7, annotations: annotations 2", "stream 13: stream 1",
                                    "stream 13, annotations: annotations 2", "stream 20, annotations: annotations 1"));
    arrange_tracks(trace, names);
    EXPECT_EQ(trace.tracks[1].name, "stream 7, annotations") << "once";
}
}  // namespace
}  // namespace pipescope
