#include "cluster/planned_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
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

std::vector<RunPart> timed_ramp(const ClusterPlanRequest& request, double samples_of_tokens, double step_ns,
                                const std::function<double(std::int64_t batch)>& step_ns_at) {
    constexpr double kAll = std::numeric_limits<double>::infinity();
    std::vector<RunPart> parts =
        run_parts(*request.ramp, request.layout.batch, request.tokens > 0 ? samples_of_tokens : kAll,
                  request.tokens > 0  ? kAll
                  : request.steps > 0 ? request.steps
                                      : 1);
    constexpr std::size_t kMostTimed = 16;
    const auto last = static_cast<double>(parts.size() - 1);
    const std::size_t timed = std::min(parts.size(), kMostTimed);
    std::size_t before = 0;
    for (std::size_t k = 0; k < timed; ++k) {
        const auto at = static_cast<std::size_t>(
            std::llround(timed > 1 ? last * static_cast<double>(k) / static_cast<double>(timed - 1) : 0));
        RunPart& part = parts[at];
        part.step_ns = part.batch == request.layout.batch ? step_ns : step_ns_at(part.batch);
        for (std::size_t between = before + 1; between < at; ++between) {
            const double share = static_cast<double>(parts[between].batch - parts[before].batch) /
                                 static_cast<double>(part.batch - parts[before].batch);
            parts[between].step_ns = parts[before].step_ns + share * (part.step_ns - parts[before].step_ns);
        }
        before = at;
    }
    return parts;
}

double save_bytes(const LanguageModel& model, const Layout& layout) {
    const RankWeights modules = rank_mtp_weights(model, 1, {});
    const RankWeights trained_modules = rank_trained_mtp_weights(model, 1, {});
    const double ends = (model.trains_embedding() ? embedding_weights(model) : 0) +
                        (model.trains_output() && !model.tied ? embedding_weights(model) : 0);
    const double blocks = trained_parameters_of(model) + trained_modules.all() - ends;
    return (parameters_of(model) + modules.all()) * static_cast<double>(dtype_bytes(layout.dtype)) +
           blocks * state_bytes(layout, true) + ends * state_bytes(layout, false);
}

namespace {
/// The run's steps without failures and saves, in hours.
double training_hours(const ClusterCandidate& candidate, const ClusterPlanRequest& request) {
    constexpr double kNsAnHour = 3600e9;
    if (request.ramp) {
        double ns = 0;
        for (const RunPart& part : candidate.ramp) {
            ns += part.steps * part.step_ns;
        }
        return ns / kNsAnHour;
    }
    const double steps = request.tokens > 0  ? std::ceil(request.tokens / candidate.step.tokens)
                         : request.steps > 0 ? request.steps
                                             : 1;
    return steps * candidate.step.step_ns() / kNsAnHour;
}
}  // namespace

void add_run(ClusterCandidate& candidate, const PipelineParts& parts, const ClusterPlanRequest& request, bool priced) {
    const double training = training_hours(candidate, request);
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
    const bool is_known = request.tokens > 0 || request.steps > 0;
    const double in_repair = is_known ? std::min(request.repair_hours, awake) : request.repair_hours;
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
    candidate.in_time = request.deadline_hours == 0 || candidate.run_hours <= request.deadline_hours;
}
}  // namespace pipescope
