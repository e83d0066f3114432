#pragma once

#include "schedule/balance.h"

#include <span>
#include <vector>

namespace pipescope {
/// Throws BalanceError unless 1 <= n <= costs.size() and the costs, and their sum, are finite and not negative.
void check_partition_request(std::span<const double> costs, int n);

/// The contiguous partition into n parts with the smallest largest sum; among those, one with the smallest sum of
/// squares, so that equal layers spread evenly. Exact and deterministic; cost O(n N^2) at most.
/// Throws BalanceError unless 1 <= n <= costs.size(), or if a cost is negative or not finite.
Balance minmax_partition(std::span<const double> costs, int n);

/// The contiguous partition into n parts whose costs vary least: the balance of the GPipe paper (arXiv 1811.06965,
/// section 2.2: "minimizes the variance in the estimated costs of all cells"). The mean of the parts is given, so this
/// is the smallest sum of squares, by dynamic programming. Exact up to rounding and deterministic; cost O(n N^2).
/// Throws as the above.
Balance variance_partition(std::span<const double> costs, int n);

struct BlockPartition {
    Balance balance;
    bool repaired = false;  ///< the method left a partition empty; layers were moved to fill it
};
/// torchgpipe's block partition (Barany and Grinberg, arXiv 1308.2452, with torchgpipe's normalisation). Kept to
/// compare with: it forgets the mean cost, so equal layers put the whole remainder on the last partition. Throws as the
/// above.
BlockPartition block_partition(std::span<const double> costs, int n);
}  // namespace pipescope
