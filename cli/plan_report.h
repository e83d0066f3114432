#pragma once

#include "simulator/planner.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace pipescope {
// What `pipescope plan` prints. Pure.

/// The documented object (docs/cli.md) with every candidate, the best first.
nlohmann::ordered_json plan_json(const Plan& plan);

/// Why the second in rank is not the best: how much slower and from what, or what it needs more of.
/// Precondition: plan.best is set.
std::string why_next_loses(const Plan& plan);

/// What the table says beside the plan's own figures.
struct PlanTableOptions {
    std::size_t most = 10;                                     ///< rows of the best, and of Pareto candidates below
    std::string cost_unit = "lane-hours per million samples";  ///< or "price per .."
    std::string profile_command = "pipescope profile MODEL";   ///< that profiles the model again
};
/// A table of the `most` best candidates, then of as many Pareto ones that rank lower: those with fewer lanes or less
/// memory, which the quickest would push out of sight. At most about 120 columns wide: long balances are shortened.
std::string plan_text(const Plan& plan, const PlanTableOptions& options);
/// "2,2,2,3" as it stands up to some 20 characters; longer ones as "2 x 60, 3 x 4", cut off in the middle if need be.
std::string short_balance(const Balance& balance);
}  // namespace pipescope
