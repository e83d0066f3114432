#include "simulator/balance_algorithm.h"

#include "schedule/error.h"

namespace pipescope {
std::string to_string(BalanceAlgorithm algorithm) {
    switch (algorithm) {
        case BalanceAlgorithm::optimal: return "optimal";
        case BalanceAlgorithm::minmax: return "minmax";
        case BalanceAlgorithm::variance: return "variance";
        case BalanceAlgorithm::block: return "block";
    }
    return "unknown";
}

BalanceAlgorithm parse_balance_algorithm(std::string_view name) {
    for (const BalanceAlgorithm algorithm :
         {BalanceAlgorithm::optimal, BalanceAlgorithm::minmax, BalanceAlgorithm::variance, BalanceAlgorithm::block}) {
        if (to_string(algorithm) == name) {
            return algorithm;
        }
    }
    throw UsageError("algorithm '" + std::string(name) +
                     "' is not known; it must be one of optimal, minmax, variance, block; use optimal when unsure");
}
}  // namespace pipescope
