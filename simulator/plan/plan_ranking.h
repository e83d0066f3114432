#pragma once

#include "simulator/plan/planner.h"

#include <cstddef>
#include <span>
#include <vector>

namespace pipescope {
/// Drops candidates with the same outcome as an earlier one, even if schedule or checkpoint mode differ.
void drop_equal_candidates(std::vector<PlanCandidate>& candidates);
/// True if `one` is nowhere worse than `other` and somewhere better: in samples per second without noise, devices,
/// highest peak and cost. Feasibility does not count.
bool dominates(const PlanCandidate& one, const PlanCandidate& other);
/// Numbers of the candidates, in the order of a Plan, that tables show: the first `most`, and as many of the Pareto
/// front that rank lower.
std::vector<std::size_t> shown_candidates(const Plan& plan, std::size_t most);
/// Marks the Pareto front by the step times without noise.
void mark_pareto(std::vector<PlanCandidate>& candidates);
/// Sorts candidates into the order of Plan::candidates, by their expected steps. Stable.
/// Precondition: all of them have noise figures, or none does.
void rank_candidates(std::span<PlanCandidate> candidates, PlanGoal goal);
/// True if a candidate, whose step is only known without noise, may be as good as `best` or better with noise. False if
/// `best` is not feasible.
bool may_beat(const PlanCandidate& candidate, const PlanCandidate& best, PlanGoal goal);
}  // namespace pipescope
