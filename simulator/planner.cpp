#include "simulator/planner.h"

#include "schedule/error.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace pipescope {
Bytes highest_peak(const Simulation& simulation) {
    Bytes most = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        most = std::max(most, lane.peak_bytes);
    }
    return most;
}

namespace {
/// Ascending, each once, none beyond the layers.
std::set<int> partitions_of(const PlanRequest& request, std::size_t layers) {
    const std::set<int> all(request.partitions.begin(), request.partitions.end());
    if (*all.begin() < 1) {
        throw UsageError("a number of partitions is " + std::to_string(*all.begin()) +
                         "; a pipeline has at least 1; leave it out");
    }
    if (static_cast<std::size_t>(*all.begin()) > layers) {
        throw BalanceError("partitions from " + std::to_string(*all.begin()) + " on; the model has " +
                           std::to_string(layers) + " layers, each partition needs one; use fewer partitions");
    }
    return {all.begin(),
            std::find_if(all.begin(), all.end(), [&](int each) { return static_cast<std::size_t>(each) > layers; })};
}

void check(const PlanRequest& request) {
    if (request.partitions.empty() || request.chunks.empty() || request.checkpoints.empty()) {
        throw UsageError(
            "there are 0 numbers of partitions, chunks or checkpoint modes to try; a plan needs 1 of each; give some");
    }
    if (!(request.price_per_lane_hour >= 0) || !std::isfinite(request.price_per_lane_hour)) {
        throw UsageError("price_per_lane_hour is " + std::to_string(request.price_per_lane_hour) +
                         "; a price is finite and not negative; correct it");
    }
}

void check_lanes(const PlanRequest& request, int most_partitions) {
    const auto require_lanes = [&](const char* name, std::size_t given) {
        if (given != 0 && given < static_cast<std::size_t>(most_partitions)) {
            throw UsageError(std::string(name) + " names " + std::to_string(given) + " lanes; up to " +
                             std::to_string(most_partitions) +
                             " are planned; give one for each, or plan fewer partitions");
        }
    };
    require_lanes("devices", request.options.devices.size());
    require_lanes("speeds", request.options.speeds.size());
}

/// The request's options for n lanes.
PipelineOptions options_for(const PlanRequest& request, int n, std::int64_t chunks, Checkpoint checkpoint) {
    PipelineOptions options = request.options;
    options.chunks = chunks;
    options.checkpoint = checkpoint;
    options.placement.clear();
    const auto lanes = static_cast<std::size_t>(n);
    options.devices.resize(std::min(options.devices.size(), lanes));
    options.speeds.resize(std::min(options.speeds.size(), lanes));
    return options;
}

PlanCandidate candidate_for(const Profile& profile, const PlanRequest& request, PipelineOptions options, int n) {
    const FoundBalance found = find_balance(profile, options, n, request.algorithm);
    options.balance = found.balance;
    PlanCandidate candidate;
    candidate.simulation = simulate(profile, options, {.noise = false, .memory = true});
    candidate.simulation.timeline.slices.clear();
    candidate.simulation.memory.clear();
    candidate.balance_is_optimal = found.optimal;
    if (candidate.simulation.samples_per_second > 0) {
        const double hours = 1e6 / candidate.simulation.samples_per_second / 3600;
        candidate.cost = request.price_per_lane_hour * hours * n;
    }
    return candidate;
}

/// Better first: feasible, quick, few lanes, little memory.
auto rank(const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    return std::tuple(!simulation.feasible, -simulation.samples_per_second, simulation.lanes.size(),
                      highest_peak(simulation));
}

bool beats(const Simulation& a, const Simulation& b) {
    const auto of = [](const Simulation& each) {
        return std::tuple(-each.samples_per_second, each.lanes.size(), highest_peak(each));
    };
    const auto [speed_a, lanes_a, bytes_a] = of(a);
    const auto [speed_b, lanes_b, bytes_b] = of(b);
    return speed_a <= speed_b && lanes_a <= lanes_b && bytes_a <= bytes_b && of(a) != of(b);
}

void mark_pareto(std::vector<PlanCandidate>& candidates) {
    for (PlanCandidate& each : candidates) {
        each.pareto = each.simulation.feasible &&
                      std::none_of(candidates.begin(), candidates.end(), [&](const PlanCandidate& other) {
                          return other.simulation.feasible && beats(other.simulation, each.simulation);
                      });
    }
}
}  // namespace

Plan plan(const Profile& profile, const PlanRequest& request) {
    check_profile(profile);
    check(request);
    const std::set<int> partitions = partitions_of(request, profile.layers.size());
    check_lanes(request, *partitions.rbegin());
    std::set<std::int64_t> chunks;
    for (const std::int64_t each : request.chunks) {
        chunks.insert(std::min(each, request.options.batch));
    }
    const double total = static_cast<double>(partitions.size()) * static_cast<double>(chunks.size()) *
                         static_cast<double>(request.checkpoints.size());
    Plan plan;
    const auto go_on = [&] {
        return !request.progress || request.progress(static_cast<double>(plan.candidates.size()) / total);
    };
    for (const int n : partitions) {
        if (plan.cancelled) {
            break;
        }
        for (const std::int64_t m : chunks) {
            for (const Checkpoint checkpoint : request.checkpoints) {
                if (!go_on()) {
                    plan.cancelled = true;
                    break;
                }
                plan.candidates.push_back(candidate_for(profile, request, options_for(request, n, m, checkpoint), n));
            }
            if (plan.cancelled) {
                break;
            }
        }
    }
    mark_pareto(plan.candidates);
    std::stable_sort(plan.candidates.begin(), plan.candidates.end(),
                     [](const PlanCandidate& a, const PlanCandidate& b) { return rank(a) < rank(b); });
    if (!plan.candidates.empty() && plan.candidates.front().simulation.feasible) {
        plan.best = 0;
    } else if (!plan.candidates.empty()) {
        const auto least = std::min_element(plan.candidates.begin(), plan.candidates.end(),
                                            [](const PlanCandidate& a, const PlanCandidate& b) {
                                                return highest_peak(a.simulation) < highest_peak(b.simulation);
                                            });
        const PipelineOptions& options = least->simulation.options;
        plan.infeasible_because =
            "memory_limit is " + std::to_string(*options.memory_limit) + "; the least that any candidate needs is " +
            std::to_string(highest_peak(least->simulation)) + " bytes a lane, with " +
            std::to_string(options.balance.num_partitions()) + " partitions, " +
            std::to_string(least->simulation.micro_batches) + " micro-batches and checkpoint " +
            to_string(options.checkpoint) + "; raise the limit to that, or allow more partitions or micro-batches";
    }
    return plan;
}
}  // namespace pipescope
