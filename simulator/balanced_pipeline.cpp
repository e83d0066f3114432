#include "simulator/balanced_pipeline.h"

#include "schedule/schedules.h"

#include <utility>

namespace pipescope {
SearchEffort quick_effort(std::size_t layers, int lanes) {
    constexpr double kFewCuts = 64;
    double cuts = 1;
    for (int cut = 1; cut < lanes && cuts <= kFewCuts; ++cut) {
        cuts *= (static_cast<double>(layers) - cut) / cut;
    }
    return {20'000, 30'000, cuts <= kFewCuts, false};
}

bool can_be_balanced(const Profile& profile, const PipelineOptions& options, int lanes) {
    if (options.schedule != Schedule::interleaved_1f1b) {
        return true;
    }
    const std::size_t micro_batches = micro_batch_sizes(options).size();
    return can_interleave(lanes, static_cast<std::int64_t>(micro_batches), profile.layers.size());
}

BalancedPipeline balanced_pipeline(const Profile& profile, const PipelineOptions& options, int lanes,
                                   BalanceAlgorithm algorithm, const SearchTables& tables) {
    const SearchEffort effort = quick_effort(profile.layers.size(), lanes);
    BalancedPipeline balanced;
    if (options.schedule == Schedule::interleaved_1f1b) {
        balanced.simulation = simulate(profile, interleaved_options(profile, options, lanes, algorithm, effort, tables),
                                       {.noise = false, .memory = true});
    } else {
        SearchedBalance searched = search_balance(profile, options, lanes, algorithm, effort, tables);
        balanced.simulation = std::move(searched.simulation);
        balanced.balance_is_optimal = searched.found.optimal;
        balanced.lower_bound_ns = searched.found.lower_bound_ns;
    }
    keep_figures_only(balanced.simulation);
    return balanced;
}

void keep_figures_only(Simulation& simulation) {
    simulation.timeline.slices = {};
    simulation.memory = {};
}
}  // namespace pipescope
