#include "benchmarks/published/zero_bubble.h"

#include <gtest/gtest.h>

#include <vector>

namespace pipescope {
namespace {
// To four digits, from the published times of a stage.
TEST(PublishedBubbles, ComeOutOfTheTimesOfAStage) {
    const std::vector<ZeroBubbleRow> rows = zero_bubble_rows(PIPESCOPE_SOURCE_DIR);
    ASSERT_EQ(rows.size(), 8U);
    for (const ZeroBubbleRow& row : rows) {
        const auto bubble = [&](const Schedule& schedule) { return bubble_of_lanes(simulated_row(row, schedule)); };
        EXPECT_NEAR(bubble(Schedule::one_f_one_b), row.one_f_one_b, 0.5e-4) << row.model << row.micro_batches;
        EXPECT_NEAR(bubble(Schedule::zero_bubble_h1), row.zero_bubble_h1, 0.5e-4) << row.model << row.micro_batches;
        EXPECT_NEAR(bubble(Schedule::zero_bubble_2p), row.zero_bubble_2p, 0.5e-4) << row.model << row.micro_batches;
    }
}

// In the memory model, which keeps activations until the end of the gradients of the weights.
TEST(PublishedMemory, ComesOutOfTheMemoryModel) {
    for (const int p : {4, 8, 16}) {
        const ZeroBubbleRow row{"uniform", p, 3 * p, 1, 1, 1, 0};
        const auto held = [&](const Schedule& schedule) { return most_activations(simulated_row(row, schedule)); };
        EXPECT_DOUBLE_EQ(held(Schedule::gpipe), 3 * p);
        EXPECT_DOUBLE_EQ(held(Schedule::one_f_one_b), p);
        EXPECT_DOUBLE_EQ(held(Schedule::zero_bubble_h1), p);
        EXPECT_DOUBLE_EQ(held(Schedule::zero_bubble_2p), 2 * p - 1);
        EXPECT_DOUBLE_EQ(held(Schedule::zero_bubble_v), p);
        EXPECT_LE(held(Schedule::v_half), p / 2.0 + 1.5);
        EXPECT_LE(held(Schedule::v_min), p / 3.0 + 2);
    }
}
}  // namespace
}  // namespace pipescope
