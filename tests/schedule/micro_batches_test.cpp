#include "schedule/micro_batches.h"

#include "base/error.h"
#include "schedule/task_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace pipescope {
namespace {
using Sizes = std::vector<std::int64_t>;

TEST(MicroBatches, DifferByAtMostOneSampleWithTheLargerFirst) {
    EXPECT_EQ(micro_batch_sizes(9, 8), (Sizes{2, 1, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(micro_batch_sizes(5, 4), (Sizes{2, 1, 1, 1}));
    EXPECT_EQ(micro_batch_sizes(8, 4), (Sizes{2, 2, 2, 2}));
}

TEST(MicroBatches, AreNoMoreThanTheSamples) {
    EXPECT_EQ(micro_batch_sizes(2, 4), (Sizes{1, 1}));
}

TEST(MicroBatches, NeedAChunkAndASample) {
    EXPECT_THROW(micro_batch_sizes(4, 0), UsageError);
    EXPECT_THROW(micro_batch_sizes(0, 4), UsageError);
    EXPECT_THROW(micro_batch_sizes(4, -1), UsageError);
    EXPECT_EQ(micro_batch_sizes(1, 1), (Sizes{1}));
}

TEST(MicroBatches, AreLimitedInNumber) {
    EXPECT_EQ(micro_batch_sizes(kMostMicroBatches, kMostMicroBatches).size(), std::size_t{kMostMicroBatches});
    EXPECT_THROW(micro_batch_sizes(kMostMicroBatches + 1, kMostMicroBatches + 1), UsageError);
    EXPECT_EQ(micro_batch_sizes(kMostMicroBatches + 1, 2).size(), 2U);
}
}  // namespace
}  // namespace pipescope
