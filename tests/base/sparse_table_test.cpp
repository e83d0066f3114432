#include "base/sparse_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
TEST(SparseTable, AreThoseOfEveryStretch) {
    std::mt19937 random(32);
    std::vector<Bytes> values(37);
    for (Bytes& value : values) {
        value = static_cast<Bytes>(random() % 100);
    }
    const SparseTable maxima(values);
    for (std::size_t first = 0; first < values.size(); ++first) {
        Bytes most = values[first];
        for (std::size_t end = first + 1; end <= values.size(); ++end) {
            most = std::max(most, values[end - 1]);
            EXPECT_EQ(maxima.largest(first, end), most) << first << " to " << end;
        }
    }
}
}  // namespace
}  // namespace pipescope
