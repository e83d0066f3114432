#include "base/sparse_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pipescope {
SparseTable::SparseTable(std::vector<Bytes> values) {
    levels_.push_back(std::move(values));
    for (std::size_t width = 1; 2 * width <= levels_.front().size(); width *= 2) {
        const std::vector<Bytes>& half = levels_.back();
        std::vector<Bytes> whole;
        for (std::size_t i = 0; i + 2 * width <= levels_.front().size(); ++i) {
            whole.push_back(std::max(half[i], half[i + width]));
        }
        levels_.push_back(std::move(whole));
    }
}

Bytes SparseTable::largest(std::size_t first, std::size_t end) const {
    const auto level = static_cast<std::size_t>(std::bit_width(end - first) - 1);
    return std::max(levels_[level][first], levels_[level][end - (std::size_t{1} << level)]);
}
}  // namespace pipescope
