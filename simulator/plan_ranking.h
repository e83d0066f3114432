#pragma once

#include "simulator/planner.h"

#include <span>
#include <vector>

namespace pipescope {
/// Drops those that came out as an earlier one did, in whatever schedule or checkpoint mode.
void drop_equal_candidates(std::vector<PlanCandidate>& candidates);
/// Marks the Pareto front, by the steps without noise.
void mark_pareto(std::vector<PlanCandidate>& candidates);
/// Puts candidates in the order of Plan::candidates, by their expected steps. Equal ones keep their order.
/// Precondition: all of them know their noise, or none does.
void rank_candidates(std::span<PlanCandidate> candidates, PlanGoal goal);
/// Whether a candidate, of which only the step without noise is known, may be better than `best` once its noise is
/// known, or as good. False if `best` is not feasible.
bool may_beat(const PlanCandidate& candidate, const PlanCandidate& best, PlanGoal goal);
}  // namespace pipescope
