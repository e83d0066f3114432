#pragma once

#include "simulator/planner.h"

#include <vector>

namespace pipescope {
/// Drops those that came out as an earlier one did, in whatever schedule or checkpoint mode.
void drop_equal_candidates(std::vector<PlanCandidate>& candidates);
/// Marks the Pareto front, and puts the candidates in the order of Plan::candidates. Equal ones keep theirs.
void rank_candidates(std::vector<PlanCandidate>& candidates, PlanGoal goal);
}  // namespace pipescope
