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

/// A table of the `most` best candidates, then of as many Pareto ones that rank lower: those with fewer lanes or less
/// memory, which the quickest would push out of sight.
std::string plan_text(const Plan& plan, std::size_t most);
}  // namespace pipescope
