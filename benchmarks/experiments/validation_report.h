#pragma once

#include "benchmarks/experiments/validation.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace pipescope {
// Output of `pipescope_experiments validate`. Pure functions. Candidates without a run, as in an interrupted
// validation, are omitted. Throws Error if no candidate has a run.

nlohmann::ordered_json validation_json(std::span<const ValidatedCandidate> candidates, const ValidationGoal& goal);
/// As text columns, or as Markdown tables, followed by a line for each part of the goal.
std::string validation_text(std::span<const ValidatedCandidate> candidates, const ValidationGoal& goal, bool markdown);
}  // namespace pipescope
