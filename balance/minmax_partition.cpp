// Exact min-max partition. Problem: cut a chain of costs into n parts so that the heaviest is as light as possible.
//
// Idea: greedy filling decides whether a bound B can be kept. Bisection over the doubles themselves, whose bit patterns
// are ordered like the numbers, finds the smallest such B. A part is always summed from its first cost on, so the bound
// is exact to the last bit. Among all cuts within the bound, dynamic programming over the few possible cuts chooses the
// smallest sum of squares. Equal layers then spread evenly instead of leaving light parts at the end.
//
// Cost: at most 64 N for the bound, and mostly far less, since each probe ends at the weight of a part (Pinar and
// Aykanat, JPDC 64, 2004, probe the same way).

#include "balance/contiguous_partition.h"
#include "base/quantities.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace pipescope {
namespace {
/// Fills n parts up to the bound, one after the other.
struct Filled {
    bool fits = false;                                      ///< n parts reach the end
    std::vector<std::size_t> ends;                          ///< of each part: its latest one within the bound
    double most = 0;                                        ///< heaviest part
    double next = std::numeric_limits<double>::infinity();  ///< smallest bound with which a part would end later
};
Filled filled(std::span<const double> costs, std::size_t n, double bound) {
    Filled result;
    result.ends.reserve(n);
    std::size_t end = 0;
    for (std::size_t part = 0; part < n; ++part) {
        const std::size_t most = costs.size() - (n - part - 1);  // leaves a layer for each later part
        double sum = 0;
        while (end < most && sum + costs[end] <= bound) {
            sum += costs[end++];
        }
        result.ends.push_back(end);
        result.most = std::max(result.most, sum);
        if (end < most) {
            result.next = std::min(result.next, sum + costs[end]);
        }
    }
    result.fits = end == costs.size();
    return result;
}

double smallest_bound(std::span<const double> costs, std::size_t n) {
    double total = 0;
    for (const double cost : costs) {
        total += cost;
    }
    // Starts at the heaviest layer, so that every part takes at least one layer.
    auto low = std::bit_cast<std::uint64_t>(*std::ranges::max_element(costs) + 0.0);  // + 0.0: not -0
    auto high = std::bit_cast<std::uint64_t>(total + 0.0);
    while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        // Parts stay the same between the weights of the heaviest part and of the first part that would grow.
        const Filled parts = filled(costs, n, std::bit_cast<double>(middle));
        if (parts.fits) {
            high = std::min(middle, std::max(low, std::bit_cast<std::uint64_t>(parts.most + 0.0)));
        } else {
            low = std::bit_cast<std::uint64_t>(parts.next);
        }
    }
    return std::bit_cast<double>(low);
}

/// Earliest end of each of n parts if the later parts keep the bound. Allows for rounding: these sums start from the
/// other end.
std::vector<std::size_t> earliest_ends(std::span<const double> costs, std::size_t n, double bound) {
    constexpr double kSlack = 1e-9;
    std::vector<std::size_t> ends(n, costs.size());
    std::size_t start = costs.size();
    for (std::size_t part = n; --part > 0;) {
        double sum = 0;
        while (start > part && sum + costs[start - 1] <= bound * (1 + kSlack)) {
            sum += costs[--start];
        }
        ends[part - 1] = start;
    }
    return ends;
}

/// best[part][end]: smallest sum of squares of the parts up to `part` if `part` ends at `end`.
struct Choice {
    double squares = std::numeric_limits<double>::infinity();
    std::size_t start = 0;
};

Balance evenest_within(std::span<const double> costs, std::size_t n, double bound) {
    const std::vector<std::size_t> latest = filled(costs, n, bound).ends;
    const std::vector<std::size_t> earliest = earliest_ends(costs, n, bound);
    std::vector<std::vector<Choice>> best(n, std::vector<Choice>(costs.size() + 1));
    for (std::size_t part = 0; part < n; ++part) {
        const std::size_t first = part == 0 ? 0 : earliest[part - 1];
        const std::size_t last = part == 0 ? 0 : latest[part - 1];
        for (std::size_t start = first; start <= last; ++start) {
            const double before = part == 0 ? 0 : best[part - 1][start].squares;
            if (!std::isfinite(before)) {
                continue;
            }
            double sum = 0;
            for (std::size_t end = start + 1; end <= latest[part] && sum + costs[end - 1] <= bound; ++end) {
                sum += costs[end - 1];
                if (end < earliest[part]) {
                    continue;
                }
                // Scaled by the bound, so that the square of a huge cost stays finite.
                const double scaled =
                    bound > 0 ? sum / bound : static_cast<double>(end - start) / static_cast<double>(costs.size());
                if (const double squares = before + scaled * scaled; squares < best[part][end].squares) {
                    best[part][end] = {squares, start};
                }
            }
        }
    }
    std::vector<std::size_t> starts(n);
    std::size_t end = costs.size();
    for (std::size_t part = n; part-- > 0;) {
        end = starts[part] = best[part][end].start;
    }
    return balance_of_starts(starts, costs.size());
}
}  // namespace

Balance balance_of_starts(const std::vector<std::size_t>& starts, std::size_t layers) {
    std::vector<std::int64_t> parts;
    for (std::size_t j = 0; j < starts.size(); ++j) {
        const std::size_t end = j + 1 < starts.size() ? starts[j + 1] : layers;
        parts.push_back(static_cast<std::int64_t>(end - starts[j]));
    }
    return Balance(std::move(parts));
}

void check_partition_request(std::span<const double> costs, int n) {
    if (n < 1 || static_cast<std::size_t>(n) > costs.size()) {
        throw BalanceError("partitions is " + std::to_string(n) + "; the model has " +
                           counted(costs.size(), "layer", "layers") + ", and each partition needs one; use 1 to " +
                           std::to_string(costs.size()));
    }
    double total = 0;
    for (std::size_t l = 0; l < costs.size(); ++l) {
        total += costs[l];
        if (!(costs[l] >= 0) || !std::isfinite(total)) {
            throw BalanceError("the cost of layer " + std::to_string(l) + " is " + std::to_string(costs[l]) +
                               "; costs are finite and not negative; profile the model again");
        }
    }
}

Balance minmax_partition(std::span<const double> costs, int n) {
    check_partition_request(costs, n);
    const auto parts = static_cast<std::size_t>(n);
    return evenest_within(costs, parts, smallest_bound(costs, parts));
}
}  // namespace pipescope
