#include "gui/timeline/timeline_store.h"

#include "gui/timeline/timeline_layout.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
Slice storedSlice(TaskKind kind, int lane, int micro_batch, int start, int end, int step = 0) {
    return {{step, kind, lane, micro_batch, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

Timeline twoLaneSlices() {
    Timeline timeline{Source::measured,
                      {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
                      {storedSlice(TaskKind::forward, 0, 0, 0, 10), storedSlice(TaskKind::copy_forward, 0, 0, 10, 12),
                       storedSlice(TaskKind::forward, 0, 1, 10, 20), storedSlice(TaskKind::forward, 1, 0, 12, 22),
                       storedSlice(TaskKind::backward, 1, 0, 22, 42), storedSlice(TaskKind::backward, 0, 0, 44, 64)}};
    timeline.slices[1].bytes = 4096;
    return timeline;
}

TEST(TimelineStore, PutsCopiesInARowBelowTheirLane) {
    const TimelineStore store(twoLaneSlices());
    ASSERT_EQ(store.rows().size(), 3u);
    EXPECT_FALSE(store.rows()[0].copies);
    EXPECT_TRUE(store.rows()[1].copies);
    EXPECT_EQ(store.rows()[1].lane, LaneId{0});
    EXPECT_EQ(store.rows()[2].lane, LaneId{1});
    EXPECT_EQ(store.numSlices(), 6u);
    EXPECT_EQ(store.range(), (TimeRange{0, 64}));
}

TEST(TimelineStore, GivesBackTheSliceItWasGiven) {
    const Timeline timeline = twoLaneSlices();
    const TimelineStore store(timeline);
    for (const Slice& each : timeline.slices) {
        const std::optional<SliceRef> found = store.find(each.key);
        ASSERT_TRUE(found) << to_string(each.key);
        EXPECT_EQ(store.slice(*found), each) << to_string(each.key);
    }
    EXPECT_FALSE(store.find({7, TaskKind::forward, 0, 0, -1}));
}

// A trace of torch may have whole backwards and halves on one lane.
TEST(TimelineStore, TellsHalvesOfABackwardFromWholeOnes) {
    const TimelineStore store(Timeline{
        Source::measured,
        {{"lane 0", "cpu"}},
        {storedSlice(TaskKind::backward, 0, 0, 0, 10), storedSlice(TaskKind::backward, 0, 1, 10, 30),
         storedSlice(TaskKind::backward_weight, 0, 0, 30, 40), storedSlice(TaskKind::backward, 0, 0, 50, 60, 1),
         storedSlice(TaskKind::backward, 0, 1, 60, 65, 1), storedSlice(TaskKind::backward, 0, 2, 65, 68, 1),
         storedSlice(TaskKind::backward_weight, 0, 1, 64, 70, 1)}});  // overlaps, so it has a row of its own
    const auto shown = [&](int step, int micro_batch) {
        return store.shownKey(*store.find({step, TaskKind::backward, 0, micro_batch, -1})).kind;
    };
    EXPECT_EQ(shown(0, 0), kInputHalf);
    EXPECT_EQ(shown(0, 1), TaskKind::backward);
    EXPECT_EQ(shown(1, 0), TaskKind::backward) << "its second half is in another step";
    EXPECT_EQ(shown(1, 1), kInputHalf);
    EXPECT_EQ(shown(1, 2), TaskKind::backward);
    const Slice half = store.slice(*store.find({0, TaskKind::backward, 0, 0, -1}));
    EXPECT_EQ(half.key.kind, TaskKind::backward) << "keys stay those of the trace";
    EXPECT_EQ(store.busyIn(LaneId{0}, {0, 40}), 40) << "a half is work";
    EXPECT_EQ(store.step(0)->statistics.lanes.at(0).busy, Nanoseconds{40});
}

TEST(TimelineStore, GivesOverlappingSlicesRowsOfTheirOwn) {
    const TimelineStore store(
        Timeline{Source::measured,
                 {{"lane 0", "cpu"}},
                 {storedSlice(TaskKind::forward, 0, 0, 0, 10), storedSlice(TaskKind::forward, 0, 1, 5, 15),
                  storedSlice(TaskKind::forward, 0, 2, 10, 20)}});
    ASSERT_EQ(store.rows().size(), 2u);
    EXPECT_EQ(store.rows()[0].start, (std::vector<std::int64_t>{0, 10}));
    EXPECT_EQ(store.rows()[1].start, (std::vector<std::int64_t>{5}));
    EXPECT_EQ(store.rows()[1].depth, 1);
}

TEST(TimelineStore, SurvivesImpossibleLanesOfADamagedTrace) {
    const TimelineStore store(
        Timeline{Source::measured,
                 {{"lane 0", "cpu"}},
                 {storedSlice(TaskKind::forward, 0, 0, 0, 10), storedSlice(TaskKind::forward, -5, 1, 5, 15),
                  storedSlice(TaskKind::forward, 2'000'000'000, 2, 10, 20)}});
    EXPECT_EQ(store.numSlices(), 1u);
    EXPECT_EQ(store.numHidden(), 2u);
}

TEST(TimelineStore, KnowsEachStepsBubble) {
    const Timeline timeline = sampleTimeline({});
    const TimelineStore store(timeline);
    ASSERT_EQ(store.steps().size(), 3u);
    for (const StepSpan& span : store.steps()) {
        EXPECT_EQ(span.statistics, step_statistics(timeline, span.step));
    }
}

TEST(TimelineStore, CountsEachStepAsStepStatisticsDoes) {
    std::mt19937 random(3);
    Timeline timeline{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
    for (int i = 0; i < 600; ++i) {  // lane 1's tasks overlap
        const int lane = i % 2;
        const std::int64_t start = lane == 0 ? i * 50 : i * 50 + static_cast<int>(random() % 200);
        const TaskKey key{i / 100, i % 7 == 0 ? TaskKind::loss : TaskKind::forward, lane, i % 100, -1};
        timeline.slices.push_back({key, LaneId{lane}, Nanoseconds{start},
                                   Nanoseconds{start + 30 + static_cast<int>(random() % (lane == 0 ? 60 : 300))}, 0});
    }
    sort_slices(timeline);
    const TimelineStore store(timeline);
    ASSERT_EQ(store.steps().size(), 6U);
    for (const StepSpan& span : store.steps()) {
        EXPECT_EQ(span.statistics, step_statistics(timeline, span.step)) << span.step;
    }
}

TEST(TimelineStore, SortsSlicesThatComeInAnyOrder) {
    std::mt19937 random(4);
    Timeline timeline{Source::measured, {{"lane 0", "cpu"}}, {}};
    for (int i = 0; i < 500; ++i) {
        timeline.slices.push_back(
            {{0, TaskKind::forward, 0, i, -1}, LaneId{0}, Nanoseconds{i * 10}, Nanoseconds{i * 10 + 9}, i % 3});
    }
    std::shuffle(timeline.slices.begin(), timeline.slices.end(), random);
    const TimelineStore store(timeline);
    ASSERT_EQ(store.rows().size(), 1U);
    for (std::uint32_t i = 0; i < 500; ++i) {
        EXPECT_EQ(store.slice({0, i}).key.micro_batch, static_cast<int>(i));
        EXPECT_EQ(store.slice({0, i}).bytes, i % 3);
        EXPECT_EQ(store.find(store.slice({0, i}).key), (SliceRef{0, i}));
    }
}

TEST(TimelineStore, NeedsAtMostFortyBytesASlice) {
    SampleRun run;
    run.partitions = 2;
    run.chunks = 64;
    run.steps = 60;
    const TimelineStore store(sampleTimeline(run));
    EXPECT_LE(store.sizeBytes() / store.numSlices(), 40u);
}

TEST(TimelineLayout, SharesTheHeightAndNeverOverlaps) {
    const TimelineStore store(twoLaneSlices());
    const TimelineLayout layout = layoutRows(store, 120);
    EXPECT_LE(layout.height, 120);
    int bottom = 0;
    for (const LaneBand& lane : layout.lanes) {
        for (const RowBand& row : lane.rows) {
            EXPECT_GE(row.band.top, bottom);
            bottom = row.band.bottom();
            EXPECT_EQ(layout.rowAt(row.band.top)->row, row.row);
        }
    }
    EXPECT_GE(layoutRows(store, 0).height, 2 * kLowestTaskRow);
}
TEST(TimelineStore, CountsBusyTimeInARangeExactly) {
    std::mt19937 random(5);
    Timeline timeline{Source::measured, {{"lane 0", "cpu"}}, {}};
    std::int64_t time = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::int64_t start = time + static_cast<int>(random() % 40);
        time = start + 1 + static_cast<int>(random() % 90);
        const TaskKind kind = i % 5 == 0 ? TaskKind::loss : TaskKind::forward;
        timeline.slices.push_back({{0, kind, 0, i, -1}, LaneId{0}, Nanoseconds{start}, Nanoseconds{time}, 0});
    }
    const TimelineStore store(timeline);
    for (int i = 0; i < 300; ++i) {
        const auto a = static_cast<std::int64_t>(random() % static_cast<unsigned>(time));
        const TimeRange range{a, a + static_cast<int>(random() % 30'000)};
        std::int64_t expected = 0;
        for (const Slice& each : timeline.slices) {
            if (is_compute(each.key.kind)) {
                expected += std::max<std::int64_t>(
                    0, std::min(range.end, each.end.count()) - std::max(range.start, each.start.count()));
            }
        }
        EXPECT_EQ(store.busyIn(LaneId{0}, range), expected);
    }
}
}  // namespace
}  // namespace pipescope
