#pragma once

#include "simulator/planner.h"

#include <span>
#include <vector>

namespace pipescope {
/// Drops candidates with the same outcome as an earlier one, whatever their schedule or checkpoint mode.
void drop_equal_candidates(std::vector<PlanCandidate>& candidates);
/// Marks the Pareto front by the step times without noise.
void mark_pareto(std::vector<PlanCandidate>& candidates);
/// Sorts candidates into the order of Plan::candidates, by their expected steps. Stable.
/// Precondition: all of them have noise figures, or none does.
void rank_candidates(std::span<PlanCandidate> candidates, PlanGoal goal);
/// True if a candidate, whose step is only known without noise, may be as good as `best` or better with noise. False if
/// `best` is not feasible.
bool may_beat(const PlanCandidate& candidate, const PlanCandidate& best, PlanGoal goal);
}  // namespace pipescope
