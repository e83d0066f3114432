#pragma once

#include "profiler/profile/profile.h"
#include "simulator/pipeline_options.h"
#include "simulator/search/balance_algorithm.h"
#include "simulator/simulation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
struct SearchTables;

/// A balance and its figures, as `pipescope balance --json` prints them.
struct FoundBalance {
    Balance balance{{1}};
    std::int64_t step_ns = 0;         ///< simulated, without noise
    std::int64_t lower_bound_ns = 0;  ///< no balance of this many partitions is faster within the memory limit
    bool optimal = false;             ///< step_ns is proven to be the shortest
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
    bool ranked_by_simulation = false;  ///< CutProblems::lanes_share(), which the closed form ignores
    bool repaired = false;              ///< block only: the method left a partition empty
    std::vector<Bytes> peak_bytes;      ///< by lane
    bool feasible = true;               ///< every lane keeps its memory limit
    /// If infeasible: the smallest limit found under which some balance fits. If the lanes' limits differ, all are
    /// raised by the same number of bytes: this is the largest lane's, and smallest_limits holds each lane's.
    std::optional<Bytes> smallest_limit;
    std::vector<Bytes> smallest_limits;
    bool smallest_limit_is_exact = false;           ///< no balance of this many partitions fits under a smaller one
    std::optional<int> smallest_partitions;         ///< if infeasible: the fewest lanes found to keep the limit
    std::optional<std::string> infeasible_because;  ///< message that names both
};

/// Bounds the search for a proof. Counts work, not time, so that equal requests give equal answers.
struct SearchEffort {
    std::size_t most_nodes = 400'000;     ///< for one enumeration of cuts
    std::int64_t most_tasks = 2'000'000;  ///< for all simulations together
    bool prove_uneven =
        true;  ///< enumerates if skips or unequal micro-batches leave a gap; moves cuts if there is no bound
    bool explain_infeasible = true;  ///< finds the smallest limit and the fewest lanes that would fit
};

/// True if at most 64 cuts into that many partitions exist, so that all of them can be simulated.
bool has_few_cuts(std::size_t layers, int partitions);
/// All of these. Precondition: has_few_cuts(); at least one layer for each partition.
std::vector<Balance> all_balances(std::size_t layers, int partitions);

/// Finds a balance for `partitions` partitions, partition j on lane j. Uses the options' other fields and ignores their
/// own balance.
///
/// With equal micro-batches, schedule gpipe and no skip across a cut, the optimal algorithm's answer is exact: optimal
/// is true, and lower_bound_ns equals step_ns. This also holds under a memory limit: cuts that a lower bound of each
/// lane's peak rules out are dropped, and the rest are simulated, shortest step first, until one keeps the limit.
/// Otherwise, or if the effort runs out first, the result is the best cut simulated. The bound then leaves out skips
/// and, with two sizes of micro-batches, most of what the larger ones add while the pipeline fills and drains. If lanes
/// share a device or links, the closed form, which knows no sharing, is the bound and selects the cuts to simulate. If
/// the closed form is no bound (another schedule than gpipe, or lanes that run faster than profiled while others wait),
/// the search starts from its best cut and moves cuts while the simulated step gets shorter; few cuts (has_few_cuts())
/// are all tried. With more on small models the result is on average 0.05 % off the best (the tests' brute force); the
/// bound is that of the work. Under a memory limit this search starts from the cut that needs least. If it finds none,
/// all cuts are tried, with up to an eighth of the effort. If nothing keeps the limit, returns the balance that needs
/// least, marked infeasible. Throws UsageError or BalanceError for options that do not fit; rejects a placement.
FoundBalance find_balance(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                          BalanceAlgorithm algorithm, const SearchEffort& effort = {});

/// A found balance with its simulation.
struct SearchedBalance {
    FoundBalance found;
    Simulation simulation;
};
/// Like find_balance(), for a caller that runs many searches and shares their tables. Precondition: `tables` were made
/// from this profile and options with the same batch, chunks, optimizer and speeds.
SearchedBalance search_balance(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                               BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables);

/// Gives each lane the partitions that the schedule needs (usual_partitions(), placement_of()). Simulates all cuts if
/// they are few (has_few_cuts()), as far as the effort allows. Otherwise the balance is the best one for partitions
/// with a lane each, since the exact search has no closed form for other placements; a memory limit that is exceeded is
/// reported then, but no balance that keeps it is searched. Throws as find_balance() does.
/// Preconditions: the schedule does not run one partition a lane; can_be_balanced().
PipelineOptions placed_options(const CheckedProfile& profile, const PipelineOptions& options, int lanes,
                               BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables);

/// The largest lane's limit under which this balance fits, if all limits move by the same number of bytes. With equal
/// limits, the largest peak.
Bytes limit_for(const FoundBalance& found, const PipelineOptions& options);
/// Adds the limits by lane, and the sentence that says what would be enough, to a balance that does not fit.
/// Precondition: smallest_limit and smallest_partitions are those found.
void add_reason(FoundBalance& found, const PipelineOptions& options);

/// The balance and figures of a simulation: nothing is proved, and nothing says why it is infeasible.
FoundBalance unproved_balance(const Simulation& simulation, BalanceAlgorithm algorithm);

/// The balance of placed_options() with its figures. Nothing is proved: lower_bound_ns is 0, and `optimal` false. Peaks
/// are by lane. Throws as find_balance() does, and UsageError if the profile has fewer layers than the schedule has
/// partitions. Precondition: the schedule does not run one partition a lane, and can run on that many lanes.
FoundBalance find_placed_balance(const CheckedProfile& profile, const PipelineOptions& options, int lanes,
                                 BalanceAlgorithm algorithm);
}  // namespace pipescope
