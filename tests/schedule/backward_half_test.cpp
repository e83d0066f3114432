#include "schedule/backward_half.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace pipescope {
namespace {
TaskKey key(TaskKind kind, int partition, int micro_batch) {
    TaskKey of;
    of.kind = kind;
    of.partition = partition;
    of.micro_batch = micro_batch;
    return of;
}
Slice slice(const TaskKey& of) {
    Slice made;
    made.key = of;
    return made;
}

TEST(SplitBackwards, ABackwardIsAFirstHalfIfItsSecondHalfRan) {
    const std::vector<Slice> slices{slice(key(TaskKind::backward, 1, 0)), slice(key(TaskKind::backward_weight, 1, 0)),
                                    slice(key(TaskKind::backward, 0, 0)), slice(key(TaskKind::forward, 0, 0))};
    const SplitBackwards split(slices);
    EXPECT_FALSE(split.empty());
    EXPECT_EQ(split.half_of(key(TaskKind::backward, 1, 0)), BackwardHalf::inputs);
    EXPECT_EQ(split.half_of(key(TaskKind::backward_weight, 1, 0)), BackwardHalf::weights);
    EXPECT_EQ(split.half_of(key(TaskKind::backward, 0, 0)), std::nullopt) << "of another partition";
    EXPECT_EQ(split.half_of(key(TaskKind::backward, 1, 1)), std::nullopt) << "of another micro-batch";
    EXPECT_EQ(split.half_of(key(TaskKind::forward, 1, 0)), std::nullopt);
}

TEST(SplitBackwards, IsEmptyIfAllAreWhole) {
    const SplitBackwards whole(std::vector<Slice>{slice(key(TaskKind::backward, 1, 0))});
    EXPECT_TRUE(whole.empty());
    EXPECT_EQ(whole.half_of(key(TaskKind::backward, 1, 0)), std::nullopt);
}

TEST(SplitBackwards, HalvesHaveNamesOfTheirOwn) {
    EXPECT_EQ(shown_name(TaskKind::backward, BackwardHalf::inputs), "backward_input");
    EXPECT_EQ(shown_name(TaskKind::backward, std::nullopt), "backward");
    EXPECT_EQ(shown_name(TaskKind::backward_weight, BackwardHalf::weights), "backward_weight");
    const TaskKey first = key(TaskKind::backward, 1, 0);
    EXPECT_NE(shown_name(first, BackwardHalf::inputs).find("backward_input"), std::string::npos);
    EXPECT_EQ(shown_name(first, std::nullopt), to_string(first));
}
}  // namespace
}  // namespace pipescope
