#pragma once

#include "balance/profile.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// How to look for a balance.
enum class BalanceAlgorithm {
    optimal,  ///< the shortest simulated GPipe step (balance/optimal_partition.h)
    minmax,   ///< the smallest largest partition, forward, recompute and backward together
    block,    ///< torchgpipe's, to compare with
};
std::string to_string(BalanceAlgorithm algorithm);
/// Throws UsageError that lists the names.
BalanceAlgorithm parse_balance_algorithm(std::string_view name);

/// A balance and what it gives; what `pipescope balance --json` prints.
struct FoundBalance {
    Balance balance{{1}};
    std::int64_t step_ns = 0;         ///< simulated, means only
    std::int64_t lower_bound_ns = 0;  ///< no balance of so many partitions steps faster, within the memory limit
    bool optimal = false;             ///< step_ns is proven to be the shortest
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
    bool repaired = false;                          ///< block only: the method left a partition empty
    std::vector<Bytes> peak_bytes;                  ///< of each lane
    bool feasible = true;                           ///< every lane keeps the memory limit
    std::optional<std::string> infeasible_because;  ///< names the smallest limit found that would do
};

/// Finds a balance for `partitions` partitions, partition j on lane j, with the options' other fields; their own
/// balance is ignored.
///
/// With equal micro-batches, no skips and schedule gpipe the optimal algorithm's answer is exact: optimal is true, and
/// lower_bound_ns equals step_ns. Otherwise the best of a few candidates by simulation, with a bound from the smaller
/// micro-batches without skips. A memory limit is kept by simulation too: cuts that cannot keep it are left out by a
/// lower bound of each partition's peak, and what remains is simulated; if tensors that wait for a slow link or lane
/// then break the limit, cuts that keep it whatever waits are tried, and optimal may be false.
/// If nothing keeps the limit, the balance that needs least is returned, infeasible.
/// Throws UsageError or BalanceError for options that do not fit; a placement is refused.
FoundBalance find_balance(const Profile& profile, const PipelineOptions& options, int partitions,
                          BalanceAlgorithm algorithm);
}  // namespace pipescope
