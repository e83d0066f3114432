#pragma once

#include <string>
#include <string_view>

namespace pipescope {
enum class BalanceAlgorithm {
    optimal,   ///< the shortest simulated GPipe step (balance/optimal_partition.h)
    minmax,    ///< smallest maximum partition time: forward, recompute and backward together
    variance,  ///< the GPipe paper's: least variance of partition costs
    block,     ///< torchgpipe's, for comparison
};
std::string to_string(BalanceAlgorithm algorithm);
/// Throws UsageError that lists the names.
BalanceAlgorithm parse_balance_algorithm(std::string_view name);
}  // namespace pipescope
