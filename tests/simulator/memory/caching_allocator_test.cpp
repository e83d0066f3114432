// Cases from the allocator's source (c10/cuda/CUDACachingAllocator.cpp), the notes on memory management in PyTorch's
// documentation, and "A guide to PyTorch's CUDA Caching Allocator" (Z. DeVito, 2022).

#include "simulator/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
constexpr Bytes kKiB = 1 << 10;
constexpr Bytes kMiB = 1 << 20;

TEST(CachingAllocator, RoundsEveryRequestUpTo512Bytes) {
    CachingAllocator allocator;
    allocator.allocate(1);
    EXPECT_EQ(allocator.allocated(), 512);
    allocator.allocate(513);
    EXPECT_EQ(allocator.allocated(), 512 + 1024);
    allocator.allocate(0);
    EXPECT_EQ(allocator.allocated(), 512 + 1024);
}

TEST(CachingAllocator, ReservesSegmentsByTheSizeOfTheRequest) {
    const auto reserved_for = [](Bytes bytes) {
        CachingAllocator allocator;
        allocator.allocate(bytes);
        return allocator.reserved();
    };
    EXPECT_EQ(reserved_for(1), 2 * kMiB) << "kSmallBuffer";
    EXPECT_EQ(reserved_for(kMiB), 2 * kMiB) << "kSmallSize belongs to the small pool";
    EXPECT_EQ(reserved_for(kMiB + 1), 20 * kMiB) << "kLargeBuffer";
    EXPECT_EQ(reserved_for(10 * kMiB - 512), 20 * kMiB);
    EXPECT_EQ(reserved_for(10 * kMiB), 10 * kMiB) << "kMinLargeAlloc: rounded to kRoundLarge";
    EXPECT_EQ(reserved_for(11 * kMiB), 12 * kMiB);
    EXPECT_EQ(reserved_for(33 * kMiB + 1), 34 * kMiB);
}

TEST(CachingAllocator, FillsASmallSegmentBeforeTheNext) {
    CachingAllocator allocator;
    for (int k = 0; k < 4; ++k) {
        allocator.allocate(512 * kKiB);
    }
    EXPECT_EQ(allocator.reserved(), 2 * kMiB);
    allocator.allocate(512);
    EXPECT_EQ(allocator.reserved(), 4 * kMiB);
}

TEST(CachingAllocator, SharesALargeSegmentBetweenRequestsBelowTenMiB) {
    CachingAllocator allocator;
    allocator.allocate(8 * kMiB);
    allocator.allocate(8 * kMiB);
    EXPECT_EQ(allocator.reserved(), 20 * kMiB);
    allocator.allocate(8 * kMiB);  // 4 MiB are left: too few
    EXPECT_EQ(allocator.reserved(), 40 * kMiB);
}

TEST(CachingAllocator, KeepsWhatIsFreedAndUsesItAgain) {
    CachingAllocator allocator;
    const auto block = allocator.allocate(32 * kMiB);
    allocator.free(block);
    EXPECT_EQ(allocator.allocated(), 0);
    EXPECT_EQ(allocator.reserved(), 32 * kMiB) << "cached";
    allocator.allocate(30 * kMiB);
    EXPECT_EQ(allocator.reserved(), 32 * kMiB);
    EXPECT_EQ(allocator.allocated(), 30 * kMiB) << "what is left is above 1 MiB and split off";
}

TEST(CachingAllocator, DoesNotSplitWhereLittleWouldBeLeft) {
    CachingAllocator allocator;
    allocator.allocate(11 * kMiB);  // of a segment of 12 MiB: 1 MiB is left, not more than kSmallSize
    EXPECT_EQ(allocator.allocated(), 12 * kMiB);
}

TEST(CachingAllocator, TakesTheSmallestBlockThatFits) {
    CachingAllocator allocator;
    const auto large = allocator.allocate(64 * kMiB);
    const auto small = allocator.allocate(32 * kMiB);
    allocator.free(large);
    allocator.free(small);
    allocator.allocate(20 * kMiB);
    allocator.allocate(60 * kMiB);  // would not fit if the first had been cut from the 64 MiB
    EXPECT_EQ(allocator.reserved(), 96 * kMiB);
}

TEST(CachingAllocator, MergesFreeNeighboursWithinASegmentOnly) {
    CachingAllocator allocator;
    const auto a = allocator.allocate(8 * kMiB);
    const auto b = allocator.allocate(8 * kMiB);
    allocator.free(a);
    allocator.free(b);
    allocator.allocate(20 * kMiB - 512);  // the whole segment again
    EXPECT_EQ(allocator.reserved(), 20 * kMiB);

    CachingAllocator apart;
    const auto first = apart.allocate(10 * kMiB);
    const auto second = apart.allocate(10 * kMiB);
    apart.free(first);
    apart.free(second);
    apart.allocate(20 * kMiB);  // two segments never become one
    EXPECT_EQ(apart.reserved(), 40 * kMiB);
}

TEST(CachingAllocator, KeepsStreamsApart) {
    CachingAllocator allocator;
    const auto block = allocator.allocate(32 * kMiB, 1);
    allocator.free(block);
    allocator.allocate(32 * kMiB, 2);
    EXPECT_EQ(allocator.reserved(), 64 * kMiB);
    EXPECT_EQ(allocator.reserved(1), 32 * kMiB);
}

TEST(CachingAllocator, GrowsAnExpandableSegmentWhereFixedOnesLeaveHoles) {
    // A batch that grows slightly each time: the case for which expandable segments were made.
    const auto reserved_with = [](bool expandable) {
        CachingAllocator allocator({.expandable_segments = expandable});
        for (Bytes size = 40; size <= 80; size += 4) {
            const auto block = allocator.allocate(size * kMiB);
            allocator.free(block);
        }
        return allocator.reserved();
    };
    EXPECT_EQ(reserved_with(true), 80 * kMiB);
    EXPECT_EQ(reserved_with(false), (40 + 44 + 48 + 52 + 56 + 60 + 64 + 68 + 72 + 76 + 80) * kMiB);
}

TEST(CachingAllocator, GrowsByWholePages) {
    CachingAllocator allocator({.expandable_segments = true});
    allocator.allocate(1);
    EXPECT_EQ(allocator.reserved(), 2 * kMiB);
    allocator.allocate(21 * kMiB);
    EXPECT_EQ(allocator.reserved(), 2 * kMiB + 40 * kMiB);
    allocator.allocate(19 * kMiB);  // in what is left of the second page
    EXPECT_EQ(allocator.reserved(), 42 * kMiB);
}

TEST(CachingAllocator, NeverReservesLessThanItAllocatesNorForgetsABlock) {
    std::mt19937 random(4);
    for (const bool expandable : {false, true}) {
        CachingAllocator allocator({.expandable_segments = expandable});
        std::vector<std::pair<CachingAllocator::Block, Bytes>> live;
        Bytes asked = 0;
        for (int round = 0; round < 20'000; ++round) {
            if (live.empty() || random() % 5 < 3) {
                const Bytes bytes = random() % 3 == 0 ? random() % (40 * kMiB) : 1 + random() % (200 * kKiB);
                live.emplace_back(allocator.allocate(bytes, static_cast<int>(random() % 2)), bytes);
                asked += bytes;
            } else {
                const std::size_t k = random() % live.size();
                allocator.free(live[k].first);
                asked -= live[k].second;
                live[k] = live.back();
                live.pop_back();
            }
            ASSERT_GE(allocator.allocated(), asked);
            ASSERT_GE(allocator.reserved(), allocator.allocated());
            ASSERT_EQ(allocator.reserved(0) + allocator.reserved(1), allocator.reserved());
        }
        for (const auto& [block, bytes] : live) {
            allocator.free(block);
        }
        EXPECT_EQ(allocator.allocated(), 0);
        if (expandable) {  // everything merged again into one block
            const Bytes reserved = allocator.reserved(0);
            allocator.allocate(reserved / 2, 0);
            EXPECT_EQ(allocator.reserved(0), reserved);
        }
    }
}
}  // namespace
}  // namespace pipescope
