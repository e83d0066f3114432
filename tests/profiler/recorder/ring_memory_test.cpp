#include "profiler/recorder/ring_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

namespace pipescope {
namespace {
TEST(RingMemory, TakesOnlyThePagesThatAreUsed) {
    constexpr std::size_t kEntries = 1 << 18;
    const RingMemory ring(kEntries);
    ring[0].start = 1;
    ring[kEntries / 2].start = 2;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> resident(kEntries * sizeof(RangeEvent) / page);
    ASSERT_EQ(mincore(&ring[0], resident.size() * page, resident.data()), 0);
    EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char bits) { return (bits & 1) != 0; }), 2);
}

TEST(RingMemory, IsRefusedWhereThereIsNone) {
    EXPECT_THROW(RingMemory(std::size_t{1} << 50), std::bad_alloc);
    EXPECT_THROW(RingMemory(SIZE_MAX / 2), std::bad_alloc);
}
}  // namespace
}  // namespace pipescope
