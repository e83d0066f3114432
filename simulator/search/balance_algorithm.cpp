#include "simulator/search/balance_algorithm.h"

#include "base/parse_name.h"

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
    using enum BalanceAlgorithm;
    return parse_name<BalanceAlgorithm>(name, {optimal, minmax, variance, block},
                                        "algorithm '" + std::string(name) + "' is not known",
                                        "use optimal when unsure");
}
}  // namespace pipescope
