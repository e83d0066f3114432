#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipescope {
/// How long things of one name took, such as tasks, ranges or kernels. Times in ns.
struct LengthFigures {
    std::int64_t count = 0;
    std::int64_t total = 0;
    std::int64_t median = 0;  ///< of an even number, the mean of the middle two
    std::int64_t p95 = 0;     ///< the least length that 95 % of them do not exceed

    double mean() const { return count > 0 ? static_cast<double>(total) / static_cast<double>(count) : 0; }
    friend bool operator==(const LengthFigures&, const LengthFigures&) = default;
};

/// All 0 without a length. Reorders the lengths. Cost: O(lengths).
template <class Length>
LengthFigures length_figures(std::vector<Length>& lengths) {
    LengthFigures figures;
    figures.count = static_cast<std::int64_t>(lengths.size());
    if (lengths.empty()) {
        return figures;
    }
    for (const Length each : lengths) {
        figures.total += static_cast<std::int64_t>(each);
    }
    const auto at = [&lengths](std::size_t place) {
        const auto found = lengths.begin() + static_cast<std::ptrdiff_t>(place);
        std::nth_element(lengths.begin(), found, lengths.end());
        return static_cast<std::int64_t>(*found);
    };
    const std::size_t middle = lengths.size() / 2;
    figures.median = at(middle);
    if (lengths.size() % 2 == 0) {
        const auto below = std::max_element(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(middle));
        figures.median = (figures.median + static_cast<std::int64_t>(*below)) / 2;
    }
    figures.p95 = at((lengths.size() * 95 + 99) / 100 - 1);
    return figures;
}
}  // namespace pipescope
