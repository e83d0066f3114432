#include "simulator/plan_ranking.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <tuple>

namespace pipescope {
std::size_t num_devices(const Simulation& simulation) {
    return simulation.lanes.size() * static_cast<std::size_t>(simulation.options.replicas);
}

Bytes highest_peak(const Simulation& simulation) {
    Bytes most = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        most = std::max(most, lane.peak_bytes);
    }
    return most;
}

Bytes largest_shortfall(const Simulation& simulation) {
    const std::vector<Bytes> limits = memory_limits_of(simulation.options, static_cast<int>(simulation.lanes.size()));
    Bytes most = std::numeric_limits<Bytes>::min();
    for (std::size_t lane = 0; lane < limits.size(); ++lane) {
        most = std::max(most, simulation.lanes[lane].peak_bytes - limits[lane]);
    }
    return most;
}

namespace {
/// Better first: feasible, quick or cheap, few lanes, little memory.
auto rank(const PlanCandidate& candidate, PlanGoal goal) {
    const Simulation& simulation = candidate.simulation;
    const double slowness = -simulation.samples_per_second;
    const bool by_cost = goal == PlanGoal::cost;
    return std::tuple(!simulation.feasible, by_cost ? candidate.cost : slowness, by_cost ? slowness : 0,
                      num_devices(simulation), highest_peak(simulation), candidate.cost);
}

/// All that a person would choose by.
auto outcome(const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    std::vector<Bytes> peaks;
    for (const SimulatedLane& lane : simulation.lanes) {
        peaks.push_back(lane.peak_bytes);
    }
    return std::tuple(candidate.device_type, simulation.options.replicas, simulation.micro_batches,
                      simulation.options.balance.layers_per_partition(), simulation.step_time, peaks);
}

/// What a Pareto front weighs; smaller is better in each.
struct Merits {
    double slowness;
    std::size_t lanes;
    Bytes bytes;
    double cost;

    bool beats(const Merits& other) const {
        return slowness <= other.slowness && lanes <= other.lanes && bytes <= other.bytes && cost <= other.cost &&
               std::tie(slowness, lanes, bytes, cost) != std::tie(other.slowness, other.lanes, other.bytes, other.cost);
    }
};

void mark_pareto(std::vector<PlanCandidate>& candidates) {
    std::vector<Merits> feasible;
    std::vector<std::size_t> index;
    for (std::size_t k = 0; k < candidates.size(); ++k) {
        const Simulation& each = candidates[k].simulation;
        if (each.feasible) {
            feasible.push_back({-each.samples_per_second, num_devices(each), highest_peak(each), candidates[k].cost});
            index.push_back(k);
        }
    }
    for (std::size_t k = 0; k < feasible.size(); ++k) {
        candidates[index[k]].pareto = std::none_of(feasible.begin(), feasible.end(),
                                                   [&](const Merits& other) { return other.beats(feasible[k]); });
    }
}
}  // namespace

void drop_equal_candidates(std::vector<PlanCandidate>& candidates) {
    std::set<decltype(outcome(candidates.front()))> seen;
    std::erase_if(candidates, [&](const PlanCandidate& each) { return !seen.insert(outcome(each)).second; });
}

void rank_candidates(std::vector<PlanCandidate>& candidates, PlanGoal goal) {
    mark_pareto(candidates);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [goal](const PlanCandidate& a, const PlanCandidate& b) { return rank(a, goal) < rank(b, goal); });
}
}  // namespace pipescope
