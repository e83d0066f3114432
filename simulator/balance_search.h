#pragma once

#include "balance/profile.h"
#include "simulator/balance_algorithm.h"
#include "simulator/pipeline_options.h"
#include "simulator/search_tables.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A balance and what it gives; what `pipescope balance --json` prints.
struct FoundBalance {
    Balance balance{{1}};
    std::int64_t step_ns = 0;         ///< simulated, without noise
    std::int64_t lower_bound_ns = 0;  ///< no balance of so many partitions steps faster, within the memory limit
    bool optimal = false;             ///< step_ns is proven to be the shortest
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
    bool ranked_by_simulation = false;  ///< CutProblems::lanes_share(): the closed form leaves that out
    bool repaired = false;              ///< block only: the method left a partition empty
    std::vector<Bytes> peak_bytes;      ///< of each lane
    bool feasible = true;               ///< every lane keeps the memory limit
    /// If infeasible: the smallest limit found under which some balance fits. Where lanes' limits differ, that of the
    /// largest lane, all being raised by as many bytes; smallest_limits then holds each lane's.
    std::optional<Bytes> smallest_limit;
    std::vector<Bytes> smallest_limits;
    bool smallest_limit_is_exact = false;    ///< no balance of so many partitions fits under a smaller one
    std::optional<int> smallest_partitions;  ///< if infeasible: the fewest lanes that were found to keep the limit
    std::optional<std::string> infeasible_because;  ///< names them
};

/// How long to look for a proof. Counted in work, not in time, so that equal requests give equal answers.
struct SearchEffort {
    std::size_t most_nodes = 400'000;     ///< of an enumeration of cuts
    std::int64_t most_tasks = 2'000'000;  ///< of all simulations together
    bool prove_uneven =
        true;  ///< enumerate where skips or unequal micro-batches leave a gap, move cuts where no bound is
    bool explain_infeasible = true;  ///< find the smallest limit, and the fewest lanes, that would do
};

/// Finds a balance for `partitions` partitions, partition j on lane j, with the options' other fields; their own
/// balance is ignored.
///
/// With equal micro-batches, schedule gpipe and no skip across a cut the optimal algorithm's answer is exact: optimal
/// is true, and lower_bound_ns equals step_ns. Under a memory limit too: cuts that a lower bound of each lane's peak
/// rules out are left aside, and what remains is simulated, the shortest step first, until one keeps the limit.
/// Otherwise (and where the effort is used up before) the best of those simulated, with a bound that leaves
/// skips out, and most of what the larger of two sizes of micro-batches take while the pipeline fills and drains. So
/// too where lanes share a device or links: the closed form, which has no sharing, is a bound, and says which cuts to
/// simulate. Where it is none (another schedule than gpipe, or lanes that run quicker than profiled while others wait),
/// cuts are moved from its best on as long as the simulated step gets shorter: on small models 0.05 % off the best in
/// the mean (the tests' brute force), and the bound is that of the work. Under a memory limit they are moved from the
/// one that needs least; if none is found so, all are tried, with up to an eighth of the effort. If nothing keeps the
/// limit, the balance that needs least is returned, infeasible. Throws UsageError or BalanceError for options that do
/// not fit; a placement is refused.
FoundBalance find_balance(const Profile& profile, const PipelineOptions& options, int partitions,
                          BalanceAlgorithm algorithm, const SearchEffort& effort = {});

/// The same for a caller that looks for many: with the tables they share, and the simulation of what was found.
struct SearchedBalance {
    FoundBalance found;
    Simulation simulation;
};
/// Precondition: `tables` were made of this profile and options that have the same batch, chunks, optimizer and speeds.
SearchedBalance search_balance(const Profile& profile, const PipelineOptions& options, int partitions,
                               BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables);
}  // namespace pipescope
