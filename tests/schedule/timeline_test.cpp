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
}  // namespace
}  // namespace pipescope
