#include "simulator/plan_ranking.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

namespace pipescope {
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
/// Better first: feasible, quick, few lanes, little memory.
auto rank(const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    return std::tuple(!simulation.feasible, -simulation.samples_per_second, simulation.lanes.size(),
                      highest_peak(simulation), candidate.cost);
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
            feasible.push_back({-each.samples_per_second, each.lanes.size(), highest_peak(each), candidates[k].cost});
            index.push_back(k);
        }
    }
    for (std::size_t k = 0; k < feasible.size(); ++k) {
        candidates[index[k]].pareto = std::none_of(feasible.begin(), feasible.end(),
                                                   [&](const Merits& other) { return other.beats(feasible[k]); });
    }
}
}  // namespace

void rank_candidates(std::vector<PlanCandidate>& candidates) {
    mark_pareto(candidates);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const PlanCandidate& a, const PlanCandidate& b) { return rank(a) < rank(b); });
}
}  // namespace pipescope
