#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace pipescope {
namespace {
TEST(NearestName, IsTheOneWithTheFewestWrongLetters) {
    const std::vector<std::string> known{"name", "memory_bytes", "memory_bytes_per_second", "launch_ns"};
    EXPECT_EQ(nearest_name("memory_byts", known), "memory_bytes");
    EXPECT_EQ(nearest_name("memory_bytes_per_secnd", known), "memory_bytes_per_second");
    EXPECT_EQ(nearest_name("lanch_ns", known), "launch_ns");
    EXPECT_EQ(nearest_name("name", known), "name");
    EXPECT_EQ(nearest_name("NAME", known), "name");
    EXPECT_EQ(nearest_name("nmae", known), std::nullopt) << "two letters of four";
    EXPECT_EQ(nearest_name("colour", known), std::nullopt);
    EXPECT_EQ(nearest_name("", known), std::nullopt);
    EXPECT_EQ(nearest_name("name", {}), std::nullopt);
}
}  // namespace
}  // namespace pipescope
