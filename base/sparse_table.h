#pragma once

#include "base/ids.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// The maximum of any subrange of numbers. O(n log n) to build, O(1) per query.
class SparseTable {
public:
    SparseTable() = default;
    explicit SparseTable(std::vector<Bytes> values);
    /// Maximum of values[first..end). Precondition: the range is not empty.
    Bytes largest(std::size_t first, std::size_t end) const;

private:
    std::vector<std::vector<Bytes>> levels_;  // [k][i]: largest of 2^k values from i on
};
}  // namespace pipescope
