#include "simulator/search/balanced_pipeline.h"

#include "balance/contiguous_partition.h"
#include "balance/optimal_partition.h"
#include "base/quantities.h"
#include "schedule/schedules.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/search/automatic_schedule.h"

#include <algorithm>
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
    explicit AutomaticBalance(const CheckedProfile& profile) : profile_(profile) {}

    /// True if the options' balance and placement are better than those before.
    bool consider(PipelineOptions options) {
        options.schedule = Schedule::automatic;
        const std::pair cut{options.balance.layers_per_partition(), options.placement};
        if (!tried_.insert(cut).second) {
            return false;
        }
        Simulation simulation = find_and_simulate(profile_, options, {.noise = false, .memory = true});
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
             all_balances(profile_->layers.size(), static_cast<int>(first.balance.num_partitions()))) {
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

    const CheckedProfile& profile_;
    std::optional<Simulation> best_;
    PipelineOptions options_;  // with schedule auto
    std::set<std::pair<std::vector<std::int64_t>, std::vector<LaneId>>> tried_;
};
}  // namespace

BalancedPipeline balanced_pipeline(const CheckedProfile& profile, const PipelineOptions& options, int lanes,
                                   BalanceAlgorithm algorithm, const SearchTables& tables) {
    const SearchEffort effort = quick_effort(profile->layers.size(), lanes);
    BalancedPipeline balanced;
    if (options.schedule == Schedule::automatic) {
        AutomaticBalance best(profile);
        for (const Schedule& named : all_schedules()) {
            PipelineOptions with = options;
            with.schedule = named;
            if (is_synchronous(named) && !is_bidirectional(named) && can_be_balanced(profile, with, lanes)) {
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

namespace {
/// A search for schedule auto, with one partition a lane, under limits that may change.
class AutomaticSearch {
public:
    AutomaticSearch(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                    BalanceAlgorithm algorithm, const SearchEffort& effort)
        : profile_(profile),
          options_(options),
          partitions_(partitions),
          algorithm_(algorithm),
          effort_(effort),
          tables_(profile, options) {}

    /// What the search for each named schedule finds.
    std::vector<SearchedBalance> of_named(PipelineOptions options, bool explain) const {
        SearchEffort effort = effort_;
        effort.explain_infeasible = explain;
        std::vector<SearchedBalance> all;
        for (const Schedule& named : all_schedules()) {
            options.schedule = named;
            if (is_synchronous(named) && runs_one_partition_a_lane(named) &&
                can_be_balanced(profile_, options, partitions_)) {
                all.push_back(search_balance(profile_, options, partitions_, algorithm_, effort, tables_));
            }
        }
        return all;
    }

    Simulation best(const PipelineOptions& options) const {
        AutomaticBalance quickest(profile_);
        for (SearchedBalance& each : of_named(options, false)) {
            quickest.consider(std::move(each.simulation.options));
        }
        if (has_few_cuts(profile_->layers.size(), partitions_)) {
            quickest.try_all_cuts();
        } else {
            quickest.move_cuts();
        }
        return quickest.take();
    }

    /// Completes a balance that does not fit. A limit is enough if this search finds a balance that keeps it: those of
    /// named schedules are tried too.
    FoundBalance explained(FoundBalance found) const {
        std::set<Bytes> limits{limit_for(found, options_)};
        std::optional<int> lanes;
        for (const SearchedBalance& each : of_named(options_, true)) {
            if (each.found.smallest_limit) {
                limits.insert(*each.found.smallest_limit);
            }
            if (const std::optional<int> enough = each.found.smallest_partitions; enough) {
                lanes = std::min(lanes.value_or(*enough), *enough);
            }
        }
        for (const Bytes limit : limits) {
            if (const Simulation kept = best(with_limit(limit)); kept.feasible) {
                if (limit < limit_for(found, options_)) {
                    found = unproved_balance(kept, algorithm_);
                    found.feasible = false;
                }
                found.smallest_limit = limit;
                break;
            }
        }
        found.smallest_partitions = lanes;
        add_reason(found, options_);
        return found;
    }

private:
    /// Moves all limits by the same number of bytes, so that the largest is this one.
    PipelineOptions with_limit(Bytes limit) const {
        PipelineOptions options = options_;
        const std::vector<Bytes> limits = memory_limits_of(options.hardware, partitions_);
        options.hardware.memory_limit = limit;
        for (std::size_t lane = 0; lane < options.hardware.memory_limits.size(); ++lane) {
            options.hardware.memory_limits[lane] = limit - limit_gap(limits, lane);
        }
        return options;
    }

    const CheckedProfile& profile_;
    PipelineOptions options_;
    int partitions_;
    BalanceAlgorithm algorithm_;
    SearchEffort effort_;
    SearchTables tables_;
};
}  // namespace

FoundBalance find_automatic_balance(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                                    BalanceAlgorithm algorithm, SearchEffort effort) {
    check_partition_request(std::vector<double>(profile->layers.size(), 0.0), partitions);
    PipelineOptions with = options;
    with.hardware = with_lanes(std::move(with.hardware), partitions);
    with.schedule = Schedule::gpipe;
    const AutomaticSearch search(profile, with, partitions, algorithm, effort);
    FoundBalance found = unproved_balance(search.best(with), algorithm);
    return found.feasible ? found : search.explained(std::move(found));
}

void keep_figures_only(Simulation& simulation) {
    simulation.timeline.slices = {};
    simulation.memory = {};
}
}  // namespace pipescope
