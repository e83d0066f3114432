#pragma once

#include "simulator/plan/planner.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace pipescope {
// Output of `pipescope plan`. Pure functions.

/// The documented object (docs/cli.md) with every candidate, best first.
nlohmann::ordered_json plan_json(const Plan& plan);

/// Explains why the second candidate is not the best: how much slower it is and why, or what it needs more of.
/// Precondition: plan.best is set.
std::string why_next_loses(const Plan& plan);

/// Options of the table beyond the plan's figures.
struct PlanTableOptions {
    std::size_t most = 10;  ///< number of best candidates, and of further Pareto rows
    std::string cost_unit = "lane-hours per million samples";  ///< or "price per .."
    std::string profile_command = "pipescope profile MODEL";   ///< to profile plan.sizes_to_profile
};
/// A table of the `most` best candidates, then of as many lower-ranked Pareto candidates, which need fewer lanes or
/// less memory and would otherwise not be shown. At most about 120 columns: long balances are shortened.
std::string plan_text(const Plan& plan, const PlanTableOptions& options);
/// "2,2,2,3" unchanged up to about 20 characters; longer ones as "2 x 60, 3 x 4", truncated in the middle if necessary.
std::string short_balance(const Balance& balance);
}  // namespace pipescope
