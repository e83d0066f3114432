#include "simulator/balanced_pipeline.h"

#include "balance/contiguous_partition.h"
#include "schedule/quantities.h"
#include "schedule/schedules.h"
#include "simulator/memory_fit.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace pipescope {
SearchEffort quick_effort(std::size_t layers, int lanes) {
    return {20'000, 30'000, has_few_cuts(layers, lanes), false};
}

bool can_be_balanced(const Profile& profile, const PipelineOptions& options, int lanes) {
    const std::size_t micro_batches = micro_batch_sizes(options).size();
    return can_run(options.schedule, lanes, static_cast<std::int64_t>(micro_batches)) &&
           usual_partitions(options.schedule, static_cast<std::size_t>(lanes)) <= profile.layers.size();
}

namespace {
/// The quickest of several balances for schedule auto.
class AutomaticBalance {
public:
    explicit AutomaticBalance(const Profile& profile) : profile_(profile) {}

    /// True if the options' balance and placement are better than those before.
    bool consider(PipelineOptions options) {
        options.schedule = Schedule::automatic;
        const std::pair cut{options.balance.layers_per_partition(), options.placement};
        if (!tried_.insert(cut).second) {
            return false;
        }
        Simulation simulation = simulate(profile_, options, {.noise = false, .memory = true});
        const bool is_better = !best_ || score(simulation) < score(*best_);
        if (is_better) {
            best_ = std::move(simulation);
            options_ = std::move(options);
        }
        return is_better;
    }

    /// Considers every cut into as many partitions.
    void try_all_cuts() {
        const PipelineOptions first = options_;
        for (const Balance& balance :
             all_balances(profile_.layers.size(), static_cast<int>(first.balance.num_partitions()))) {
            PipelineOptions options = first;
            options.balance = balance;
            consider(std::move(options));
        }
    }

    /// Moves layers from one partition to the next, or back.
    void move_cuts() {
        int tries = kMostMoves;
        for (bool moved = true; moved && tries > 0;) {
            moved = false;
            const std::vector<std::int64_t> layers = options_.balance.layers_per_partition();
            for (std::size_t j = 0; j + 1 < layers.size() && !moved; ++j) {
                for (const int change : {1, -1}) {
                    std::vector<std::int64_t> other = layers;
                    other[j] += change;
                    other[j + 1] -= change;
                    if (other[j] < 1 || other[j + 1] < 1 || tries-- <= 0) {
                        continue;
                    }
                    PipelineOptions options = options_;
                    options.balance = Balance(other);
                    if (consider(std::move(options))) {
                        moved = true;
                        break;
                    }
                }
            }
        }
    }

    Simulation take() { return std::move(*best_); }

private:
    static constexpr int kMostMoves = 64;
    /// Bytes above the limit, then the step.
    static std::pair<Bytes, Nanoseconds> score(const Simulation& simulation) {
        return {simulation.feasible ? 0 : largest_shortfall(simulation), simulation.step_time};
    }

    const Profile& profile_;
    std::optional<Simulation> best_;
    PipelineOptions options_;  // with schedule auto
    std::set<std::pair<std::vector<std::int64_t>, std::vector<LaneId>>> tried_;
};
}  // namespace

BalancedPipeline balanced_pipeline(const Profile& profile, const PipelineOptions& options, int lanes,
                                   BalanceAlgorithm algorithm, const SearchTables& tables) {
    const SearchEffort effort = quick_effort(profile.layers.size(), lanes);
    BalancedPipeline balanced;
    if (options.schedule == Schedule::automatic) {
        AutomaticBalance best(profile);
        for (const Schedule& named : all_schedules()) {
            PipelineOptions with = options;
            with.schedule = named;
            if (is_synchronous(named) && can_be_balanced(profile, with, lanes)) {
                best.consider(balanced_pipeline(profile, with, lanes, algorithm, tables).simulation.options);
            }
        }
        best.move_cuts();
        balanced.simulation = best.take();
    } else if (!runs_one_partition_a_lane(options.schedule)) {
        balanced.simulation = simulate(profile, placed_options(profile, options, lanes, algorithm, effort, tables),
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

FoundBalance find_automatic_balance(const Profile& profile, const PipelineOptions& options, int partitions,
                                    BalanceAlgorithm algorithm, SearchEffort effort) {
    check_profile(profile);
    check_partition_request(std::vector<double>(profile.layers.size(), 0.0), partitions);
    effort.explain_infeasible = false;
    PipelineOptions with = options;
    with.hardware = with_lanes(std::move(with.hardware), partitions);
    with.schedule = Schedule::gpipe;
    const SearchTables tables(profile, with);
    AutomaticBalance best(profile);
    for (const Schedule& named : all_schedules()) {
        with.schedule = named;
        if (is_synchronous(named) && runs_one_partition_a_lane(named) && can_be_balanced(profile, with, partitions)) {
            best.consider(search_balance(profile, with, partitions, algorithm, effort, tables).simulation.options);
        }
    }
    if (has_few_cuts(profile.layers.size(), partitions)) {
        best.try_all_cuts();
    } else {
        best.move_cuts();
    }
    const Simulation simulation = best.take();
    FoundBalance found = unproved_balance(simulation, algorithm);
    if (!found.feasible) {
        found.infeasible_because = memory_limit_text(options.hardware) + "; the balance " + to_string(found.balance) +
                                   " needs " + format_bytes(largest_shortfall(simulation)) +
                                   " more on one lane in the best order that was found; use checkpoint always, or more "
                                   "lanes";
    }
    return found;
}

void keep_figures_only(Simulation& simulation) {
    simulation.timeline.slices = {};
    simulation.memory = {};
}
}  // namespace pipescope
