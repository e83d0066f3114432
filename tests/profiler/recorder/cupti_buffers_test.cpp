#include "profiler/recorder/cupti_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace pipescope {
namespace {
constexpr std::size_t kBytes = 4096;
constexpr std::size_t kMost = 2;

/// Reads two records from every buffer.
CUptiResult CUPTIAPI next_record(std::uint8_t* buffer, std::size_t, CUpti_Activity** record) {
    auto* at = reinterpret_cast<std::uint8_t*>(*record);
    if (at == buffer + 8) {
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<CUpti_Activity*>(at == nullptr ? buffer : at + 8);
    return CUPTI_SUCCESS;
}

struct Acquired {
    std::uint8_t* data = nullptr;
    std::size_t bytes = 0;
};
Acquired acquire(CuptiBuffers& buffers) {
    Acquired buffer;
    buffer.data = buffers.acquire(buffer.bytes);
    return buffer;
}

TEST(CuptiBuffers, HandsABufferOutAgainOnceItWasGivenBack) {
    CuptiBuffers buffers(next_record, kBytes, kMost);
    std::set<std::uint8_t*> seen;
    for (int round = 0; round < 100; ++round) {
        const Acquired buffer = acquire(buffers);
        EXPECT_EQ(buffer.bytes, kBytes);
        seen.insert(buffer.data);
        buffers.complete({buffer.data, 16, nullptr, 0});
        for (const CuptiBuffers::Filled& filled : buffers.take_completed()) {
            EXPECT_EQ(filled.data, buffer.data);
            buffers.give_back(filled.data);
        }
    }
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_EQ(buffers.bytes(), kBytes);
    EXPECT_EQ(buffers.most_in_use(), 1U);
}

TEST(CuptiBuffers, HandsOutZeros) {
    CuptiBuffers buffers(next_record, kBytes, kMost);
    for (int round = 0; round < 3; ++round) {
        const Acquired buffer = acquire(buffers);
        EXPECT_TRUE(std::all_of(buffer.data, buffer.data + buffer.bytes, [](std::uint8_t byte) { return byte == 0; }));
        std::memset(buffer.data, 0xab, buffer.bytes);
        buffers.complete({buffer.data, 16, nullptr, 0});
        buffers.give_back(buffers.take_completed().at(0).data);
    }
}

TEST(CuptiBuffers, CountsTheRecordsOfBuffersBeyondTheBoundAndFreesThem) {
    CuptiBuffers buffers(next_record, kBytes, kMost);
    acquire(buffers);
    acquire(buffers);
    const Acquired third = acquire(buffers);
    ASSERT_NE(third.data, nullptr) << "older releases of CUPTI crash without one";
    EXPECT_TRUE(std::all_of(third.data, third.data + third.bytes, [](std::uint8_t byte) { return byte == 0; }));
    buffers.complete({third.data, 16, nullptr, 0});
    EXPECT_TRUE(buffers.take_completed().empty());
    EXPECT_EQ(buffers.thrown_away(), 2);
    EXPECT_EQ(buffers.bytes(), kMost * kBytes);
}

TEST(CuptiBuffers, KeepsOnlyWhatCuptiHoldsWhenItIsToFreeTheRest) {
    CuptiBuffers buffers(next_record, kBytes, kMost);
    const Acquired held = acquire(buffers);
    const Acquired free = acquire(buffers);
    buffers.give_back(free.data);
    buffers.free_unused();
    EXPECT_EQ(buffers.bytes(), kBytes);
    buffers.complete({held.data, 16, nullptr, 0});  // late
    EXPECT_EQ(buffers.take_completed().size(), 1U);
    buffers.give_back(held.data);
    buffers.free_unused();
    EXPECT_EQ(buffers.bytes(), 0U);
    EXPECT_NE(acquire(buffers).data, nullptr);
}
}  // namespace
}  // namespace pipescope
