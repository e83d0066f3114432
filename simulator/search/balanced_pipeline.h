#pragma once

#include "simulator/pipeline_options.h"
#include "simulator/search/balance_algorithm.h"
#include "simulator/search/balance_search.h"
#include "simulator/search/search_tables.h"
#include "simulator/simulation.h"

#include <cstddef>
#include <cstdint>

namespace pipescope {
/// A pipeline with the best balance found in milliseconds, as the planner and the advisor try many of them.
struct BalancedPipeline {
    Simulation simulation;  ///< without noise, timeline and memory over time
    bool balance_is_optimal = false;
    std::int64_t lower_bound_ns = 0;  ///< no balance is faster; 0 for schedules with a placement of their own
};

/// The effort of one search among many. If there are few cuts, simulation finds the best of them.
SearchEffort quick_effort(std::size_t layers, int lanes);
/// True if the schedule can run that many lanes and the options' micro-batches (can_run()), and the model has the
/// layers.
bool can_be_balanced(const Profile& profile, const PipelineOptions& options, int lanes);
/// Cuts the model for `lanes` lanes: into one partition for each, or as the schedule needs them (usual_partitions()).
/// Preconditions: can_be_balanced(); the options have no placement, and their hardware describes `lanes` lanes; those
/// of search_balance() for `tables`. Throws as search_balance() does.
///
/// Schedule auto finds cuts and order together (automatic_schedule()): it starts from the balance that this finds for
/// each named schedule, and of the best one moves single layers over the cuts as long as that helps. So the step is
/// never longer than that of a named schedule. Nothing is proved: lower_bound_ns is 0.
BalancedPipeline balanced_pipeline(const CheckedProfile& profile, const PipelineOptions& options, int lanes,
                                   BalanceAlgorithm algorithm, const SearchTables& tables);

/// Finds balance and order for schedule auto with one partition a lane, as `balance` prints it. Starts from the
/// balances of find_balance() with that effort, so the step is never longer than theirs. Tries all cuts if they are
/// few. Throws as find_balance() does.
FoundBalance find_automatic_balance(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                                    BalanceAlgorithm algorithm, SearchEffort effort = {});

/// Drops what a list of many simulations does not keep: timeline and memory over time.
void keep_figures_only(Simulation& simulation);
}  // namespace pipescope
