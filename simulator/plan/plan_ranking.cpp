#include "simulator/plan/plan_ranking.h"

#include "simulator/plan/pareto_front.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace pipescope {
std::size_t num_devices(const Simulation& simulation) {
    return simulation.lanes.size() * static_cast<std::size_t>(simulation.options.replicas);
}

namespace {
/// A ranking criterion, listed most important first; lower is better.
using Criterion = double (*)(const PlanCandidate&);
double infeasible(const PlanCandidate& candidate) {
    return candidate.simulation.feasible ? 0 : 1;
}
double time_per_sample(const PlanCandidate& candidate) {
    const double samples = expected_figures(candidate.simulation).samples_per_second;
    return samples > 0 ? 1 / samples : std::numeric_limits<double>::max();
}
double devices(const PlanCandidate& candidate) {
    return static_cast<double>(num_devices(candidate.simulation));
}
double memory(const PlanCandidate& candidate) {
    return static_cast<double>(highest_peak(candidate.simulation));
}
constexpr std::array<Criterion, 5> kBySpeed{infeasible, time_per_sample, devices, expected_cost, memory};
constexpr std::array<Criterion, 5> kByCost{infeasible, expected_cost, time_per_sample, devices, memory};

/// Sorts by the first criterion, and ties by the next ones. Candidates tie with the best of a group, not with a
/// neighbour, so that small differences do not add up.
void rank_by(std::span<const Criterion> criteria, std::span<PlanCandidate> candidates) {
    if (criteria.empty() || candidates.size() < 2) {
        return;
    }
    const Criterion criterion = criteria.front();
    std::ranges::stable_sort(candidates, [criterion](const PlanCandidate& a, const PlanCandidate& b) {
        return criterion(a) < criterion(b);
    });
    for (std::size_t first = 0; first < candidates.size();) {
        const double most = criterion(candidates[first]) * (1 + kPlanTie);
        std::size_t end = first + 1;
        while (end < candidates.size() && criterion(candidates[end]) <= most) {
            ++end;
        }
        rank_by(criteria.subspan(1), candidates.subspan(first, end - first));
        first = end;
    }
}

/// All figures that a person would choose by.
auto outcome(const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    std::vector<Bytes> peaks;
    for (const SimulatedLane& lane : simulation.lanes) {
        peaks.push_back(lane.peak_bytes);
    }
    return std::tuple(candidate.device_type, simulation.options.replicas, simulation.micro_batches,
                      simulation.options.balance.layers_per_partition(), simulation.step_time, peaks);
}

/// The criteria of the Pareto front; smaller is better.
std::array<double, 4> merits(const PlanCandidate& candidate) {
    return {-candidate.simulation.samples_per_second, devices(candidate), memory(candidate), candidate.cost};
}
}  // namespace

void drop_equal_candidates(std::vector<PlanCandidate>& candidates) {
    std::set<decltype(outcome(candidates.front()))> seen;
    std::erase_if(candidates, [&](const PlanCandidate& each) { return !seen.insert(outcome(each)).second; });
}

bool dominates(const PlanCandidate& one, const PlanCandidate& other) {
    return dominates(merits(one), merits(other));
}

std::vector<std::size_t> shown_candidates(const Plan& plan, std::size_t most) {
    std::vector<std::size_t> shown;
    std::size_t lower = 0;
    for (std::size_t rank = 0; rank < plan.candidates.size(); ++rank) {
        const bool is_lower = rank >= most;
        if (is_lower && (!plan.candidates[rank].pareto || lower == most)) {
            continue;
        }
        shown.push_back(rank);
        lower += is_lower ? 1 : 0;
    }
    return shown;
}

void mark_pareto(std::vector<PlanCandidate>& candidates) {
    std::vector<std::array<double, 4>> feasible;
    std::vector<PlanCandidate*> marked;
    for (PlanCandidate& each : candidates) {
        if (each.simulation.feasible) {
            feasible.push_back(merits(each));
            marked.push_back(&each);
        }
    }
    const std::vector<bool> front = pareto_front(feasible);
    for (std::size_t k = 0; k < marked.size(); ++k) {
        marked[k]->pareto = front[k];
    }
}

void rank_candidates(std::span<PlanCandidate> candidates, PlanGoal goal) {
    rank_by(goal == PlanGoal::cost ? kByCost : kBySpeed, candidates);
}

bool may_beat(const PlanCandidate& candidate, const PlanCandidate& best, PlanGoal goal) {
    const Criterion criterion = goal == PlanGoal::cost ? expected_cost : time_per_sample;
    // Tied candidates are not sorted by the criterion.
    return candidate.simulation.feasible && best.simulation.feasible &&
           criterion(candidate) <= criterion(best) * (1 + kPlanTie) * (1 + kPlanTie);
}

double expected_cost(const PlanCandidate& candidate) {
    const double samples = expected_figures(candidate.simulation).samples_per_second;
    return samples > 0 ? candidate.cost * candidate.simulation.samples_per_second / samples : candidate.cost;
}

double relative_cost(const PlanCandidate& one, const PlanCandidate& other) {
    const bool with_noise = one.simulation.noise && other.simulation.noise;
    const double of_one = with_noise ? expected_cost(one) : one.cost;
    const double of_other = with_noise ? expected_cost(other) : other.cost;
    return of_other > 0 ? of_one / of_other : 1;
}
}  // namespace pipescope
