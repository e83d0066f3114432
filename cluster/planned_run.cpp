#include "cluster/planned_run.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pipescope {
namespace {
/// The nodes of one type that a run rents.
struct RentedNodes {
    int nodes = 0;
    int most_spares = 0;        ///< those that it wants, as far as the cluster has them
    int spares = 0;             ///< those that it rents
    double an_hour = 0;         ///< cost of one node
    std::vector<double> waits;  ///< in hours, by number of spares; 0 beyond the end

    double wait() const {
        const auto k = static_cast<std::size_t>(spares);
        return k < waits.size() ? waits[k] : 0;
    }
};

double cost_of(const std::vector<RentedNodes>& rented, double awake) {
    double hours = awake;
    double an_hour = 0;
    for (const RentedNodes& each : rented) {
        hours += each.wait();
        an_hour += (each.nodes + each.spares) * each.an_hour;
    }
    return hours * an_hour;
}

/// Gives up spares that cost more than they save, type by type until none does.
void rent_cheapest(std::vector<RentedNodes>& rented, double awake) {
    double least = cost_of(rented, awake);
    for (bool improved = true; improved;) {
        improved = false;
        for (RentedNodes& each : rented) {
            const int before = each.spares;
            int best = before;
            for (each.spares = 0; each.spares <= each.most_spares; ++each.spares) {
                if (const double cost = cost_of(rented, awake); cost < least) {
                    least = cost;
                    best = each.spares;
                }
            }
            each.spares = best;
            improved = improved || best != before;
        }
    }
}

}  // namespace

void add_run(ClusterCandidate& candidate, const PipelineParts& parts, const ClusterPlanRequest& request, bool priced) {
    const double steps = request.tokens > 0 ? std::ceil(request.tokens / candidate.step.tokens) : 1;
    const double training = steps * candidate.step.step_ns() / 1e9 / 3600;
    std::vector<RentedNodes> rented;
    Failures failures{0, request.checkpoint_seconds, request.restart_seconds};
    double failures_an_hour = 0;
    for (const auto& [group, lanes] : parts) {
        const std::int64_t devices = lanes * candidate.step.layout.stage_devices();
        RentedNodes& each = rented.emplace_back();
        each.nodes = static_cast<int>((devices + group->devices_per_node - 1) / group->devices_per_node);
        each.an_hour = priced ? group->price_per_hour : group->devices_per_node;
        failures_an_hour += group->hours_between_failures > 0 ? each.nodes / group->hours_between_failures : 0;
        candidate.nodes += each.nodes;
    }
    if (failures_an_hour > 0) {
        failures.hours_between = 1 / failures_an_hour;
        candidate.checkpoints = best_checkpoints(failures);
    }
    const double awake = training / candidate.checkpoints.effective;
    // A run of one step says nothing about the training's length.
    const double in_repair = request.tokens > 0 ? std::min(request.repair_hours, awake) : request.repair_hours;
    for (std::size_t k = 0; k < rented.size(); ++k) {
        RentedNodes& each = rented[k];
        const NodeGroup& group = *parts[k].group;
        if (group.hours_between_failures <= 0) {
            continue;
        }
        const int wanted = spare_nodes(each.nodes, group.hours_between_failures, in_repair);
        each.spares = each.most_spares = std::min(wanted, group.nodes - each.nodes);
        candidate.missing_nodes += wanted - each.most_spares;
        each.waits = repair_waits_by_spares(awake, group.hours_between_failures / each.nodes, request.repair_hours,
                                            each.most_spares);
    }
    if (request.goal == ClusterGoal::cost) {
        rent_cheapest(rented, awake);
    }
    for (const RentedNodes& each : rented) {
        candidate.spare_nodes += each.spares;
        candidate.wait_hours += each.wait();
    }
    candidate.run_hours = awake + candidate.wait_hours;
    candidate.checkpoints.effective *= std::isfinite(awake) ? awake / candidate.run_hours : 1;
    candidate.cost = cost_of(rented, awake);
}
}  // namespace pipescope
