#include "schedule/memory_category.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(MemoryBreakdown, IsKnownIfAnyCategoryIs) {
    MemoryBreakdown bytes;
    EXPECT_FALSE(bytes.known());
    bytes[MemoryCategory::skip] = 0;
    EXPECT_TRUE(bytes.known());
}
}  // namespace
}  // namespace pipescope
