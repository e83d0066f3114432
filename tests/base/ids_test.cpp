#include "base/ids.h"

#include "base/error.h"
#include "schedule/task_key.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Id, TakesAnyIntegerThatFits) {
    EXPECT_EQ(LayerId{std::size_t{7}}, LayerId{7});
    EXPECT_EQ(LaneId{std::numeric_limits<std::int32_t>::max()}.value(), 2147483647);
    EXPECT_EQ(MicroBatchId{std::int64_t{-1}}.value(), -1);
}

TEST(Id, RefusesANumberThatItWouldTruncate) {
    for (const std::int64_t value : {std::int64_t{1} << 32, std::int64_t{1} << 31, -(std::int64_t{1} << 31) - 1}) {
        EXPECT_THAT(thrown<UsageError>([value] { PartitionId{value}; }),
                    AllOf(HasSubstr("index " + std::to_string(value)), HasSubstr("does not fit 32 bits"),
                          HasSubstr("use fewer")));
    }
    EXPECT_THROW(LayerId{static_cast<std::size_t>(-1)}, UsageError);
}

TEST(Cell, TellsMicroBatchFromPartition) {
    EXPECT_EQ((Cell{MicroBatchId{2}, PartitionId{1}}),
              cell_of({.kind = TaskKind::forward, .partition = 1, .micro_batch = 2}));
    EXPECT_NE((Cell{MicroBatchId{1}, PartitionId{2}}), (Cell{MicroBatchId{2}, PartitionId{1}}));
}
}  // namespace
}  // namespace pipescope
