#pragma once

#include "simulator/planner.h"

#include <vector>

namespace pipescope {
/// Marks the Pareto front, and puts the candidates in the order of Plan::candidates. Equal ones keep theirs.
void rank_candidates(std::vector<PlanCandidate>& candidates);
}  // namespace pipescope
