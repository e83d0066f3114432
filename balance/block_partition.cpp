// torchgpipe's balancing method, step for step, flaw included. It normalises costs to (x - min) / (max - min), which
// discards the mean cost of a layer, and stops as soon as the blocks differ by one such unit. Equal layers therefore
// keep the first split, whose last block takes the whole remainder.

#include "balance/contiguous_partition.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace pipescope {
namespace {
class Blocks {
public:
    Blocks(std::span<const double> costs, std::size_t n) : costs_(costs.size()), ends_(n) {
        const double least = *std::ranges::min_element(costs);
        const double range = *std::ranges::max_element(costs) - least;
        std::transform(costs.begin(), costs.end(), costs_.begin(),
                       [&](double cost) { return range > 0 ? (cost - least) / range : 0.0; });
        for (std::size_t j = 0; j < n; ++j) {
            ends_[j] = j + 1 < n ? costs.size() / n * (j + 1) : costs.size();
        }
    }

    void solve() {
        // Barany and Grinberg prove that the moves end if sums are exact. With rounding, two blocks could swap forever.
        std::size_t moves_left = 4 * ends_.size() * costs_.size() * costs_.size() + 16;
        while (true) {
            const std::size_t p = largest();
            const double most = size(p);
            while (true) {
                const std::size_t q = smallest(p);
                if (most <= size(q) + 1 || moves_left-- == 0) {
                    return;
                }
                const std::size_t donor = p < q ? q - 1 : q + 1;
                if (p < q) {
                    --ends_[donor];
                } else {
                    ++ends_[q];
                }
                if (donor == p) {
                    break;
                }
            }
        }
    }

    /// Gives each empty block a layer of its nearest neighbour. Returns true if a block was empty.
    bool repair() {
        const std::vector<std::size_t> before = ends_;
        const std::size_t n = ends_.size();
        for (std::size_t j = 0; j < n; ++j) {
            ends_[j] = std::max(ends_[j], start(j) + 1);
        }
        for (std::size_t j = 0; j < n; ++j) {
            ends_[j] = std::min(ends_[j], costs_.size() - (n - j - 1));
        }
        return ends_ != before;
    }

    Balance balance() const {
        std::vector<std::size_t> starts;
        for (std::size_t j = 0; j < ends_.size(); ++j) {
            starts.push_back(start(j));
        }
        return balance_of_starts(starts, costs_.size());
    }

private:
    std::size_t start(std::size_t j) const { return j == 0 ? 0 : ends_[j - 1]; }
    double size(std::size_t j) const {
        double sum = 0;
        for (std::size_t l = start(j); l < ends_[j]; ++l) {
            sum += costs_[l];
        }
        return sum;
    }
    /// The last of the largest blocks, like Python's max over (size, index) pairs.
    std::size_t largest() const {
        std::size_t best = 0;
        for (std::size_t j = 1; j < ends_.size(); ++j) {
            best = size(j) >= size(best) ? j : best;
        }
        return best;
    }
    /// The first of the smallest blocks, like Python's min. If that choice would take a layer from an empty block, the
    /// block closest to p, as in the paper. torchgpipe's blocks would overlap here.
    std::size_t smallest(std::size_t p) const {
        std::size_t best = 0;
        for (std::size_t j = 1; j < ends_.size(); ++j) {
            best = size(j) < size(best) ? j : best;
        }
        while (best != p) {
            const std::size_t donor = p < best ? best - 1 : best + 1;
            if (donor == p || ends_[donor] > start(donor)) {
                break;
            }
            best = donor;
        }
        return best;
    }

    std::vector<double> costs_;
    std::vector<std::size_t> ends_;
};
}  // namespace

BlockPartition block_partition(std::span<const double> costs, int n) {
    check_partition_request(costs, n);
    Blocks blocks(costs, static_cast<std::size_t>(n));
    blocks.solve();
    const bool repaired = blocks.repair();
    return {blocks.balance(), repaired};
}
}  // namespace pipescope
