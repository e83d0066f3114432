#pragma once

#include <string>
#include <string_view>

namespace pipescope {
/// How to look for a balance.
enum class BalanceAlgorithm {
    optimal,   ///< the shortest simulated GPipe step (balance/optimal_partition.h)
    minmax,    ///< the smallest largest partition, forward, recompute and backward together
    variance,  ///< the GPipe paper's: partitions whose costs vary least
    block,     ///< torchgpipe's, to compare with
};
std::string to_string(BalanceAlgorithm algorithm);
/// Throws UsageError that lists the names.
BalanceAlgorithm parse_balance_algorithm(std::string_view name);
}  // namespace pipescope
