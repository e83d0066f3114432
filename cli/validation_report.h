#pragma once

#include "analysis/validation.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace pipescope {
// What `pipescope validate` prints. Pure. Candidates without a run, as an interrupted validation has them, are left
// out; throws Error if none has one.

nlohmann::ordered_json validation_json(std::span<const ValidatedCandidate> candidates, const ValidationGoal& goal);
/// As text columns, or as Markdown tables for a page; below a line for each part of the goal.
std::string validation_text(std::span<const ValidatedCandidate> candidates, const ValidationGoal& goal, bool markdown);
}  // namespace pipescope
