#include "schedule/balance.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

TEST(Balance, GivesEachPartitionTheLayersAfterItsPredecessor) {
    const Balance balance({2, 3});
    EXPECT_EQ(balance.layers_of(PartitionId{0}), (LayerRange{LayerId{0}, LayerId{2}}));
    EXPECT_EQ(balance.layers_of(PartitionId{1}), (LayerRange{LayerId{2}, LayerId{5}}));
    EXPECT_EQ(balance.layers_per_partition(), (std::vector<std::int64_t>{2, 3}));
}

TEST(Balance, KnowsTheOwnerOfEachLayer) {
    const Balance balance({2, 3});
    EXPECT_EQ(balance.partition_of(LayerId{1}), PartitionId{0});
    EXPECT_EQ(balance.partition_of(LayerId{2}), PartitionId{1});
    EXPECT_THROW(balance.partition_of(LayerId{5}), BalanceError);
}

TEST(Balance, RefusesAnEmptyPartitionAndSaysWhatToDo) {
    EXPECT_THAT(thrown<BalanceError>([] { Balance({2, 0}); }), HasSubstr("balance[1] is 0"));
}

TEST(Balance, RefusesAnEmptyListAndANegativeCount) {
    EXPECT_THROW(Balance({}), BalanceError);
    EXPECT_THROW(Balance({-1, 3}), BalanceError);
}

TEST(Balance, SaysHowManyLayersItMissesOfAModel) {
    EXPECT_THAT(thrown<BalanceError>([] {
                    Balance({2, 3}).check_covers(7);
                }),
                AllOf(HasSubstr("sums to 5"), HasSubstr("7 layers")));
    EXPECT_NO_THROW(Balance({2, 3}).check_covers(5));
}

TEST(Balance, ReadsItsOwnText) {
    EXPECT_EQ(to_string(parse_balance("2,3,1")), "2,3,1");
    for (const char* text : {"", "2,", "2;3", "two", "2,3.5", "99999999999999999999"}) {
        EXPECT_THROW(parse_balance(text), BalanceError) << text;
    }
}
}  // namespace
}  // namespace pipescope
