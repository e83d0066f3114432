#pragma once

#include "schedule/balance.h"

#include <cstddef>
#include <span>
#include <vector>

namespace pipescope {
/// Throws BalanceError unless 1 <= n <= costs.size(), all costs are finite and not negative, and their sum is finite.
void check_partition_request(std::span<const double> costs, int n);

/// The balance whose parts begin at these layers, which start with 0 and ascend.
Balance balance_of_starts(const std::vector<std::size_t>& starts, std::size_t layers);

/// Cuts the chain into n parts with the smallest maximum sum. Among those, picks one with the smallest sum of squares,
/// so that equal layers spread evenly. Exact and deterministic; cost O(n N^2) at most.
/// Throws BalanceError unless 1 <= n <= costs.size() and the costs are finite and not negative.
Balance minmax_partition(std::span<const double> costs, int n);

/// Cuts the chain into n parts with the smallest variance. This is the balance of the GPipe paper (arXiv 1811.06965,
/// section 2.2: "minimizes the variance in the estimated costs of all cells"). The mean is fixed, so dynamic
/// programming minimises the sum of squares. Exact up to rounding and deterministic; cost O(n N^2). Throws like
/// minmax_partition().
Balance variance_partition(std::span<const double> costs, int n);

struct BlockPartition {
    Balance balance;
    bool repaired = false;  ///< the method left a partition empty, and layers were moved to fill it
};
/// torchgpipe's block partition (Barany and Grinberg, arXiv 1308.2452, with torchgpipe's normalisation), kept for
/// comparison. It discards the mean cost, so equal layers put the whole remainder on the last partition. Throws like
/// minmax_partition().
BlockPartition block_partition(std::span<const double> costs, int n);
}  // namespace pipescope
