#include "gui/timeline/memory_track.h"

#include "analysis/step_peaks.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
MemorySample sample(int time, Bytes allocated, Bytes peak, int lane = 0) {
    MemorySample each;
    each.lane = LaneId{lane};
    each.time = Nanoseconds{time};
    each.allocated = allocated;
    each.peak = peak;
    return each;
}

TEST(MemoryTrack, HoldsALevelUntilTheNextSample) {
    const MemoryTrack track({sample(100, 10, 10), sample(200, 30, 50), sample(300, 5, 30)});
    const std::vector<MemoryColumn> columns = track.columns({0, 0, 400}, 8);  // 50 ns each
    EXPECT_FALSE(columns[1].known);
    EXPECT_EQ(columns[2].allocated, 10);
    EXPECT_EQ(columns[3].allocated, 10);
    EXPECT_EQ(columns[3].peak, 50);  // somewhere before the second sample it was that high
    EXPECT_EQ(columns[5].allocated, 30);
    EXPECT_FALSE(columns[7].known);
}

TEST(MemoryTrack, KnowsItsPeakAndThatOfARange) {
    const MemoryTrack track({sample(100, 10, 10), sample(200, 30, 50), sample(300, 5, 30)});
    EXPECT_EQ(track.highest(), 50);
    EXPECT_EQ(track.highestTime(), 200);
    EXPECT_EQ(track.highestIn({250, 400}), 30);
    EXPECT_EQ(track.highestIn({400, 500}), std::nullopt);
}

// The viewer asks the tracks, since it does not keep the samples. The figures must be those of `compare`.
TEST(MemoryTrack, FindsThePeaksThatAComparisonFinds) {
    std::vector<MemorySample> samples;
    for (int i = 0; i < 1000; ++i) {
        samples.push_back(sample(i, i * 7919 % 1009, i % 3 == 0 ? 0 : i * 104'729 % 1013));
    }
    const MemoryTrack track(samples);
    for (const TimeRange range : {TimeRange{0, 0}, {64, 128}, {500, 501}, {17, 940}, {990, 2000}}) {
        EXPECT_EQ(track.highestIn(range), measured_peaks(samples, {range}, 1)[0]->bytes) << range.start;
    }
}

TEST(MemoryTrack, FindsThePeakAmongManySamplesOfAColumn) {
    std::vector<MemorySample> samples;
    for (int i = 0; i < 10'000; ++i) {
        samples.push_back(sample(i, i == 7777 ? 1'000'000 : i % 100, 0));
    }
    const std::vector<MemoryColumn> columns = MemoryTrack(samples).columns({0, 0, 10'000}, 10);
    EXPECT_EQ(columns[7].peak, 1'000'000);
    EXPECT_EQ(columns[6].allocated, 99);
}

TEST(MemoryTrack, GivesTheSamplesThatDrawARange) {
    const MemoryTrack track({sample(100, 10, 10), sample(200, 30, 50), sample(300, 5, 30), sample(400, 7, 7)});
    EXPECT_EQ(track.pointsIn({150, 250}), (std::vector<MemoryPoint>{{100, 10, 10}, {200, 30, 50}, {300, 5, 30}}));
    EXPECT_EQ(track.pointsIn({0, 1000}).size(), 4U);
    EXPECT_EQ(track.pointsIn({500, 600}), (std::vector<MemoryPoint>{{400, 7, 7}}));
    EXPECT_TRUE(MemoryTrack().pointsIn({0, 10}).empty());
}

TEST(MemoryTrack, CutsOutAStepWithTheLevelAtItsStart) {
    MemorySample composed = sample(200, 30, 50);
    composed.composition[MemoryCategory::saved] = 30;
    const MemoryTrack track({sample(100, 10, 70), composed, sample(300, 5, 30), sample(400, 7, 7)});
    const MemoryTrack cut = track.cut({150, 300}, 150);
    EXPECT_EQ(cut.pointsIn({-1000, 1000}), (std::vector<MemoryPoint>{{0, 10, 10}, {50, 30, 50}, {150, 5, 30}}));
    EXPECT_EQ(cut.highest(), 50) << "the peak of 70 was before";
    EXPECT_EQ(cut.compositionAt(60)[MemoryCategory::saved], 30);
    EXPECT_TRUE(MemoryTrack().cut({0, 10}, 0).empty());
}

TEST(MemoryTracks, AreSortedByLaneAndEmptyWithoutSamples) {
    EXPECT_TRUE(memoryTracks({}, 2).empty());
    const std::vector<MemoryTrack> tracks = memoryTracks({sample(0, 7, 7, 1), sample(1, 9, 9, 5)}, 2);
    ASSERT_EQ(tracks.size(), 2u);
    EXPECT_TRUE(tracks[0].empty());
    EXPECT_EQ(tracks[1].highest(), 7);
}
}  // namespace
}  // namespace pipescope
