// The input chooses a small chain. The search must find the shortest of all its cuts.

#include "balance/contiguous_partition.h"
#include "balance/optimal_partition.h"
#include "tests/balance/every_balance.h"
#include "tests/balance/random_problem.h"
#include "tests/fuzz/fuzzed_random.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>

namespace pipescope {
namespace {
double largest_part(std::span<const double> costs, const Balance& balance) {
    double largest = 0;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange range = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        double sum = 0;
        for (std::size_t l = range.first.index(); l < range.end.index(); ++l) {
            sum += costs[l];
        }
        largest = std::max(largest, sum);
    }
    return largest;
}
}  // namespace
}  // namespace pipescope

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    FuzzedRandom random(data, size);
    const PartitionProblem problem = random_problem(random);
    constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
    std::int64_t shortest = kNone;
    double smallest = std::numeric_limits<double>::infinity();
    for_every_balance(problem.forward_ns.size(), problem.partitions, [&](const Balance& balance) {
        smallest = std::min(smallest, largest_part(problem.forward_ns, balance));
        if (fits(problem, balance)) {
            shortest = std::min(shortest, gpipe_step(problem, balance));
        }
    });
    const auto found = optimal_partitions(problem, 3);
    if (found.empty() ? shortest != kNone : found.front().step_ns != shortest) {
        std::abort();
    }
    for (const RankedBalance& each : found) {
        if (!fits(problem, each.balance) || gpipe_step(problem, each.balance) != each.step_ns) {
            std::abort();
        }
    }
    const Balance cut = minmax_partition(problem.forward_ns, problem.partitions);
    if (largest_part(problem.forward_ns, cut) > smallest * (1 + 1e-12)) {
        std::abort();
    }
    return 0;
}
