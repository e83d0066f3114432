#include "schedule/task_key.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(TaskKey, ComesBackFromItsPackedForm) {
    const TaskKey keys[] = {
        {0, TaskKind::forward, 0, 0, -1},
        {kMostSteps - 1, TaskKind::all_reduce, kMostPartitions - 1, kMostMicroBatches - 1, kMostSkips - 1},
        {-1, TaskKind::loss, -1, -1, -1},
        {7, TaskKind::copy_backward, 3, 31, 2}};
    for (const TaskKey& key : keys) {
        EXPECT_EQ(unpack(pack(key)), key) << to_string(key);
    }
}

TEST(TaskKey, PacksItsFieldsFromTheTopInTheDocumentedOrder) {
    // step 24, kind 4, partition 10, micro-batch 16, skip 10 bits
    EXPECT_EQ(pack({1, TaskKind::backward, 3, 4, 5}),
              std::uint64_t{1} << 40 | std::uint64_t{2} << 36 | std::uint64_t{3} << 26 | std::uint64_t{4} << 10 | 5u);
    EXPECT_EQ(pack({0, TaskKind::forward, 0, 0, -1}), 0x3ffu);
}

TEST(TaskKey, WrapsAStepBeyondItsFieldInsteadOfCorruptingTheOthers) {
    const auto key = unpack(pack({kMostSteps + 5, TaskKind::loss, 1, -1, -1}));
    ASSERT_TRUE(key);
    EXPECT_EQ(key->step, 5);
    EXPECT_EQ(key->kind, TaskKind::loss);
}

TEST(TaskKey, IsNothingForANumberWithAnUnknownKind) {
    EXPECT_FALSE(unpack(std::uint64_t{kNumTaskKinds} << 36));
}

TEST(TaskKind, IsReadBackFromItsName) {
    for (int k = 0; k < kNumTaskKinds; ++k) {
        const auto kind = static_cast<TaskKind>(k);
        EXPECT_EQ(parse_task_kind(to_string(kind)), kind);
    }
    EXPECT_FALSE(parse_task_kind("sideways"));
}
}  // namespace
}  // namespace pipescope
