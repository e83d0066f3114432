#include "base/number_ranges.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(NumberRanges, ReadsNumbersListsAndRanges) {
    EXPECT_THAT(parse_ranges("4", "-n"), ElementsAre(NumberRange{4, 4}));
    EXPECT_THAT(parse_ranges("1..8", "-n"), ElementsAre(NumberRange{1, 8}));
    EXPECT_THAT(parse_ranges("3..3", "-n"), ElementsAre(NumberRange{3, 3}));
    EXPECT_THAT(parse_ranges("1,2,4..8", "-n"), ElementsAre(NumberRange{1, 1}, NumberRange{2, 2}, NumberRange{4, 8}));
}

TEST(NumberRanges, RefusesWhatIsNoRangeAndShowsHowToWriteOne) {
    for (const char* text : {"", "0", "-1", "1..", "..8", "1...8", "1..2..3", "1-8", "two", "1.5", "1,,2", "0..4",
                             "99999999999999999999", " 1"}) {
        EXPECT_THROW(parse_ranges(text, "--chunks"), UsageError) << text;
    }
    EXPECT_THAT(thrown<UsageError>([] { parse_ranges("1..x", "--chunks"); }),
                AllOf(HasSubstr("--chunks is '1..x'"), HasSubstr("'x'")));
    EXPECT_THAT(thrown<UsageError>([] { parse_ranges("8..1", "--chunks"); }),
                AllOf(HasSubstr("does not descend"), HasSubstr("1..8")));
}

TEST(NumberRanges, EveryNumberOfPartitionsUpToTheLayersIsTriedOnce) {
    EXPECT_THAT(partitions_to_try({{4, 4}, {1, 2}, {2, 4}}, 9), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(partitions_to_try({{2, 9'000'000'000'000}}, 4), ElementsAre(2, 3, 4));
    EXPECT_THAT(partitions_to_try({{5, 8}}, 4), ElementsAre(5)) << "left for the planner to refuse";
}

TEST(NumberRanges, OfAChunksRangeTheEndsPowersOfTwoAndDivisorsAreTried) {
    EXPECT_THAT(chunks_to_try({{1, 64}}, 64), ElementsAre(1, 2, 4, 8, 16, 32, 64));
    EXPECT_THAT(chunks_to_try({{3, 14}}, 60), ElementsAre(3, 4, 5, 6, 8, 10, 12, 14));
    EXPECT_THAT(chunks_to_try({{7, 7}, {2, 2}}, 60), ElementsAre(2, 7)) << "single numbers are taken as they are";
}

TEST(NumberRanges, ChunksBeyondTheBatchAreTheBatch) {
    EXPECT_THAT(chunks_to_try({{1, 64}}, 6), ElementsAre(1, 2, 3, 4, 6));
    EXPECT_THAT(chunks_to_try({{32, 64}}, 6), ElementsAre(6));
    EXPECT_EQ(chunks_to_try({{1, std::int64_t{1} << 62}}, std::int64_t{1} << 62).size(), 63u);
}
}  // namespace
}  // namespace pipescope
