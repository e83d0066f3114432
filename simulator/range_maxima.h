#pragma once

#include "schedule/ids.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// The largest of any stretch of numbers. O(n log n) to build, O(1) to ask.
class RangeMaxima {
public:
    RangeMaxima() = default;  ///< of nothing
    explicit RangeMaxima(std::vector<Bytes> values);
    /// Of values[first..end). Precondition: the stretch is not empty.
    Bytes largest(std::size_t first, std::size_t end) const;

private:
    std::vector<std::vector<Bytes>> levels_;  // [k][i]: largest of 2^k values from i on
};
}  // namespace pipescope
