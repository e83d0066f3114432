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

struct BlockPartition {
    Balance balance;
    bool repaired = false;  ///< the method left a partition empty; layers were moved to fill it
};
/// torchgpipe's block partition (Barany and Grinberg, arXiv 1308.2452, with torchgpipe's normalisation). Kept to
/// compare with: it forgets the mean cost, so equal layers put the whole remainder on the last partition. Throws as the
/// above.
BlockPartition block_partition(std::span<const double> costs, int n);
}  // namespace pipescope
