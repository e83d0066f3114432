// Idea: best[q][end] is the smallest sum of squares of the first `end` costs in q parts. For a fixed end, a part that
// starts earlier is larger. Once its square alone exceeds the best sum found, no earlier start can help.

#include "balance/contiguous_partition.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace pipescope {
Balance variance_partition(std::span<const double> costs, int n) {
    check_partition_request(costs, n);
    const std::size_t layers = costs.size();
    const auto parts = static_cast<std::size_t>(n);
    const double largest = std::max(*std::ranges::max_element(costs), std::numeric_limits<double>::min());
    std::vector<double> best(layers + 1, std::numeric_limits<double>::infinity());
    best[0] = 0;
    std::vector<std::vector<std::size_t>> start(parts, std::vector<std::size_t>(layers + 1, 0));
    for (std::size_t q = 0; q < parts; ++q) {
        std::vector<double> next(layers + 1, std::numeric_limits<double>::infinity());
        for (std::size_t end = q + 1 == parts ? layers : q + 1; end <= layers - (parts - q - 1); ++end) {
            double sum = 0;
            for (std::size_t first = end; first-- > q;) {
                sum += costs[first] / largest;  // scaled, so that the square of a huge cost stays finite
                if (sum * sum >= next[end]) {
                    break;
                }
                // Equal squares, as with layers of zero cost: prefers the shorter part.
                if (const double squares = best[first] + sum * sum; squares < next[end]) {
                    next[end] = squares;
                    start[q][end] = first;
                }
            }
        }
        best = std::move(next);
    }
    std::vector<std::size_t> starts(parts);
    std::size_t end = layers;
    for (std::size_t q = parts; q-- > 0;) {
        end = starts[q] = start[q][end];
    }
    return balance_of_starts(starts, layers);
}
}  // namespace pipescope
