#include "profiler/memory/memory_account.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace pipescope {
namespace {
Bytes total_of(const MemoryBreakdown& breakdown) {
    Bytes sum = 0;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        sum += breakdown[static_cast<MemoryCategory>(k)];
    }
    return sum;
}

TEST(MemoryAccount, WhatATaskLeavesIsNoLongerTransient) {
    MemoryAccount account;
    const MemoryAccount::Place place{MemoryCategory::saved, account.task()};
    account.add(100, place);
    account.add(50, place);
    EXPECT_EQ(account.composition()[MemoryCategory::transient], 150);
    account.subtract(50, place);
    account.end_task(MemoryCategory::saved);
    EXPECT_EQ(account.composition()[MemoryCategory::transient], 0);
    EXPECT_EQ(account.composition()[MemoryCategory::saved], 100);
    account.subtract(100, place);  // by a later task: it tells from its number where it is counted now
    EXPECT_EQ(total_of(account.composition()), 0);
    EXPECT_EQ(account.allocated(), 0);
}

TEST(MemoryAccount, KnowsWhatItsPeakConsistedOf) {
    MemoryAccount account;
    const MemoryAccount::Place parameter{MemoryCategory::parameters, 0};
    const MemoryAccount::Place temporary{MemoryCategory::saved, account.task()};
    account.add(1000, parameter);
    account.take_peak();
    account.add(300, temporary);
    account.subtract(300, temporary);
    const MemoryAccount::Peak peak = account.take_peak();
    EXPECT_EQ(peak.bytes, 1300);
    EXPECT_GT(peak.time.count(), 0);
    EXPECT_EQ(peak.composition[MemoryCategory::parameters], 1000);
    EXPECT_EQ(peak.composition[MemoryCategory::transient], 300);
    const MemoryAccount::Peak quiet = account.take_peak();
    EXPECT_EQ(quiet.bytes, 1000);
    EXPECT_EQ(quiet.time.count(), 0);
}

TEST(MemoryAccount, KnowingBetterWhatBytesAreChangesNoTotalAndNoPeak) {
    MemoryAccount account;
    const MemoryAccount::Place taken{MemoryCategory::copy, account.task()};
    account.add(100, taken);
    account.recount(100, taken, {MemoryCategory::gradients, 0});
    EXPECT_EQ(account.composition()[MemoryCategory::gradients], 100);
    EXPECT_EQ(account.peak(), 100);
    account.end_task(MemoryCategory::copy);
    EXPECT_EQ(account.composition()[MemoryCategory::copy], 0);
}

// While tasks end, other threads free memory: the categories still sum to the allocated bytes.
TEST(MemoryAccount, CategoriesSumToTheTotalWhateverThreadsDo) {
    MemoryAccount account;
    constexpr int kRounds = 20'000;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < kRounds; ++i) {
                const MemoryAccount::Place place{MemoryCategory::saved, account.task()};
                account.add(8, place);
                account.subtract(8, place);
                if (i % 16 == 0) {
                    account.end_task(MemoryCategory::saved);
                    const MemoryAccount::Peak peak = account.take_peak();
                    if (peak.time.count() != 0) {
                        ASSERT_EQ(total_of(peak.composition), peak.bytes);
                    }
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(account.allocated(), 0);
}
}  // namespace
}  // namespace pipescope
