#include "schedule/timeline.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
Slice slice(TaskKind kind, int lane, int micro_batch, int start, int end, int step = 0) {
    return {{step, kind, lane, micro_batch, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0};
}

TEST(StepStatistics, CountsTheBubbleBetweenFirstForwardAndLastBackward) {
    // lane 0: F F . . B B     lane 1: . F . L B .      step 6, busy 4 and 2
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
                            {slice(TaskKind::forward, 0, 0, 10, 12), slice(TaskKind::forward, 1, 0, 11, 12),
                             slice(TaskKind::loss, 1, -1, 13, 14), slice(TaskKind::backward, 1, 0, 14, 15),
                             slice(TaskKind::backward, 0, 0, 14, 16), slice(TaskKind::optimizer, 0, -1, 16, 20)}};
    const StepStatistics statistics = step_statistics(timeline, 0);
    EXPECT_EQ(statistics.step_time(), Nanoseconds{6});
    EXPECT_EQ(statistics.lanes[0].busy, Nanoseconds{4});
    EXPECT_EQ(statistics.lanes[1].busy, Nanoseconds{2});
    EXPECT_DOUBLE_EQ(statistics.lanes[0].bubble_fraction, 1 - 4.0 / 6);
    EXPECT_DOUBLE_EQ(statistics.bubble_fraction, (1 - 4.0 / 6 + 1 - 2.0 / 6) / 2);
}

TEST(StepStatistics, CountsOverlappingSlicesOnce) {
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}},
                            {slice(TaskKind::forward, 0, 0, 0, 10), slice(TaskKind::backward, 0, 0, 5, 20)}};
    EXPECT_EQ(step_statistics(timeline, 0).lanes[0].busy, Nanoseconds{20});
}

TEST(StepStatistics, LooksAtOneStepOnly) {
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}},
                            {slice(TaskKind::forward, 0, 0, 0, 10, 0), slice(TaskKind::forward, 0, 0, 50, 90, 1)}};
    EXPECT_EQ(step_statistics(timeline, 1).step_time(), Nanoseconds{40});
    EXPECT_EQ(step_statistics(timeline, 2).step_time(), Nanoseconds{0});
    EXPECT_EQ(steps_of(timeline), (std::vector<std::int32_t>{0, 1}));
    EXPECT_EQ(step_of(timeline, 1).slices.size(), 1u);
}

TEST(StaggeredStatistics, CountThePeriodOfStepsThatOverlap) {
    // step      0 0 0 . 0 1 1 1 . 1         each lane: F B O, then the next step's
    // lane 0:   F . B O F . B O .           time 0 to 8
    // lane 1:   . F . B O F . B O           lane 1 ends step 0 at 5 and step 1 at 9
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}, {"lane 1", "cpu"}},
                            {slice(TaskKind::forward, 0, 0, 0, 1, 0), slice(TaskKind::backward, 0, 0, 2, 3, 0),
                             slice(TaskKind::optimizer, 0, -1, 3, 4, 0), slice(TaskKind::forward, 1, 0, 1, 2, 0),
                             slice(TaskKind::backward, 1, 0, 3, 4, 0), slice(TaskKind::optimizer, 1, -1, 4, 5, 0),
                             slice(TaskKind::forward, 0, 0, 4, 5, 1), slice(TaskKind::backward, 0, 0, 6, 7, 1),
                             slice(TaskKind::optimizer, 0, -1, 7, 8, 1), slice(TaskKind::forward, 1, 0, 5, 6, 1),
                             slice(TaskKind::backward, 1, 0, 7, 8, 1), slice(TaskKind::optimizer, 1, -1, 8, 9, 1)}};
    const std::map<std::int32_t, StepStatistics> steps = statistics_by_step(timeline, Update::staggered);
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps.at(0).start, Nanoseconds{0});
    EXPECT_EQ(steps.at(0).end, Nanoseconds{5});
    EXPECT_EQ(steps.at(0).lanes[0].busy, Nanoseconds{3}) << "with the next step's forward";
    EXPECT_EQ(steps.at(1).start, Nanoseconds{5}) << "not its first forward, which ran before the end of step 0";
    EXPECT_EQ(steps.at(1).step_time(), Nanoseconds{4});
    EXPECT_EQ(steps.at(1).lanes[0].busy, Nanoseconds{1});
    EXPECT_EQ(steps.at(1).lanes[1].busy, Nanoseconds{2});
    EXPECT_DOUBLE_EQ(steps.at(1).bubble_fraction, (0.75 + 0.5) / 2);
    // Without overlap a step begins with its first forward: what lies between belongs to none.
    Timeline apart = timeline;
    for (Slice& each : apart.slices) {
        each.start += Nanoseconds{each.key.step * 100};
        each.end += Nanoseconds{each.key.step * 100};
    }
    EXPECT_EQ(statistics_by_step(apart, Update::staggered).at(1).start, Nanoseconds{104});
    EXPECT_EQ(statistics_by_step(apart, Update::staggered).at(1).step_time(), Nanoseconds{5});
}

TEST(StaggeredStatistics, AreThoseOfEachStepWhereUpdatesAreSynchronous) {
    const Timeline timeline{Source::measured,
                            {{"lane 0", "cpu"}},
                            {slice(TaskKind::forward, 0, 0, 0, 10, 0), slice(TaskKind::optimizer, 0, -1, 10, 40, 0),
                             slice(TaskKind::forward, 0, 0, 50, 90, 1)}};
    const std::map<std::int32_t, StepStatistics> steps = statistics_by_step(timeline, Update::synchronous);
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps.at(0), step_statistics(timeline, 0));
    EXPECT_EQ(steps.at(1), step_statistics(timeline, 1));
}
}  // namespace
}  // namespace pipescope
