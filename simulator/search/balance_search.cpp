#include "simulator/search/balance_search.h"

#include "balance/contiguous_partition.h"
#include "balance/cuts_in_order.h"
#include "balance/optimal_partition.h"
#include "base/error.h"
#include "base/quantities.h"
#include "schedule/schedules.h"
#include "simulator/clock/task_costs.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/search/cut_problems.h"
#include "simulator/search/search_tables.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kCandidates = 8;
constexpr int kMostPartitionsTried = 64;
constexpr int kMostFailures = 8;  // limit of partition counts that looked possible but failed

bool lanes_differ(const std::vector<Bytes>& limits) {
    return std::ranges::adjacent_find(limits, std::not_equal_to<>()) != limits.end();
}

}  // namespace

Bytes limit_for(const FoundBalance& found, const PipelineOptions& options) {
    const std::vector<Bytes> limits = memory_limits_of(options.hardware, static_cast<int>(found.peak_bytes.size()));
    Bytes most = 0;
    for (std::size_t lane = 0; lane < found.peak_bytes.size(); ++lane) {
        most = std::max(most, found.peak_bytes[lane] + limit_gap(limits, lane));
    }
    return most;
}

namespace {
class BalanceSearch {
public:
    BalanceSearch(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                  const SearchEffort& effort, const SearchTables& tables)
        : profile_(profile),
          options_(options),
          partitions_(partitions),
          effort_(effort),
          tables_(tables),
          problems_(profile, options, partitions, tables),
          limits_(memory_limits_of(options.hardware, partitions)),
          tasks_left_(effort.most_tasks) {}

    /// Runs an algorithm that only looks at the costs of each layer.
    SearchedBalance of_costs(BalanceAlgorithm algorithm) {
        const BlockPartition cut = partition_by_costs(algorithm, problems_.layer_costs(), partitions_);
        SearchedBalance searched = simulated(cut.balance);
        searched.found.repaired = cut.repaired;
        return searched;
    }

    /// Simulates the exact search's proposals and returns the best.
    SearchedBalance optimal() {
        try_in_turn(by_bound(candidates()));
        if (!best_ && !limits_.empty()) {
            try_in_turn(frugal_candidates());
        }
        if (is_proven()) {
            return *std::move(best_);
        }
        if (problems_.cost_is_a_bound() && (effort_.prove_uneven || !leaves_a_gap())) {
            enumerate();
        } else if (!problems_.cost_is_a_bound() && effort_.prove_uneven) {
            climb();
            if (!best_) {
                find_any_that_fits();
                climb();
            }
            if (has_few_cuts(profile_->layers.size(), partitions_)) {
                try_all();
            }
        }
        return best_ ? *std::move(best_) : least_memory();
    }

    /// No balance within the limit is faster.
    std::int64_t lower_bound() {
        if (!problems_.cost_is_a_bound()) {
            return std::max(bound_, problems_.work_bound());
        }
        const std::vector<RankedBalance>& relaxed = shortest();
        return std::max(bound_, relaxed.empty() ? problems_.work_bound() : relaxed.front().step_ns);
    }

    bool ranks_by_simulation() const { return problems_.lanes_share(); }

    SearchedBalance simulated(const Balance& balance) {
        PipelineOptions options = options_;
        options.balance = balance;
        SearchedBalance searched;
        searched.simulation = find_and_simulate(profile_, options, {.noise = false, .memory = true});
        tasks_left_ -= static_cast<std::int64_t>(searched.simulation.timeline.slices.size());
        searched.found = unproved_balance(searched.simulation, FoundBalance{}.algorithm);
        return searched;
    }

private:
    bool is_proven() { return best_ && best_->found.step_ns <= lower_bound(); }

    /// Balances worth simulating, the most promising first.
    std::vector<Balance> candidates() {
        std::vector<Balance> balances;
        const auto propose = [&](const std::vector<RankedBalance>& ranked) {
            for (const RankedBalance& each : ranked) {
                if (std::ranges::find(balances, each.balance) == balances.end()) {
                    balances.push_back(each.balance);
                }
            }
        };
        if (profile_->layers.size() > kMostExactLayers) {
            optimal_partitions(problems_.least());  // refuses, and says what to do
        }
        if (options_.update == Update::staggered) {  // its period is the busiest lane's work, if no lane waits
            balances.push_back(minmax_partition(problems_.layer_costs(), partitions_));
        }
        propose(shortest());
        const bool needs_several = leaves_a_gap() || problems_.lanes_share() || !problems_.cost_is_a_bound();
        const std::size_t most = needs_several ? kCandidates : 1;
        balances.erase(balances.begin() + static_cast<std::ptrdiff_t>(std::min(most, balances.size())), balances.end());
        return balances;
    }

    /// Cuts that keep the limit even by the upper bound of memory, or that need little.
    std::vector<Balance> frugal_candidates() {
        std::vector<Balance> balances;
        for (const RankedBalance& each : optimal_partitions(problems_.whatever_waits(), 1)) {
            balances.push_back(each.balance);
        }
        if (!problems_.cost_is_a_bound()) {
            Balance frugal({1});
            PartitionProblem problem = problems_.whatever_waits();
            problem.memory_limits = limits_;
            smallest_memory_limit(problem, &frugal);
            balances.push_back(frugal);
        }
        return balances;
    }

    void try_in_turn(const std::vector<Balance>& balances) {
        for (const Balance& candidate : balances) {
            if (is_proven()) {
                return;
            }
            if (!best_ || !problems_.cost_is_a_bound() || problems_.step_at_least(candidate) < best_->found.step_ns) {
                try_cut(candidate);
            }
        }
    }

    bool is_uneven() const { return tables_.sizes.front() != tables_.sizes.back(); }
    /// True if a cut's step may be longer than in the closed form.
    bool leaves_a_gap() const {
        return is_uneven() || !tables_.times(options_.checkpoint).large.skips.empty() || !shares_of(*profile_).empty();
    }

    /// Sorts by the recurrence, which knows micro-batches of two sizes and is usually equal to the simulation.
    std::vector<Balance> by_bound(const std::vector<Balance>& balances) const {
        if (!is_uneven() || !problems_.cost_is_a_bound()) {
            return balances;
        }
        std::vector<std::pair<std::int64_t, std::size_t>> order;
        for (std::size_t k = 0; k < balances.size(); ++k) {
            order.emplace_back(problems_.step_at_least(balances[k]), k);
        }
        std::ranges::sort(order);
        std::vector<Balance> sorted;
        for (const auto& [bound, k] : order) {
            sorted.push_back(balances[k]);
        }
        return sorted;
    }

    const std::vector<RankedBalance>& shortest() {
        if (!shortest_) {
            shortest_ = profile_->layers.size() > kMostExactLayers ? std::vector<RankedBalance>{}
                                                                   : optimal_partitions(problems_.least(), kCandidates);
        }
        return *shortest_;
    }

    void try_cut(const Balance& balance) {
        const auto [known, is_new] = tried_.emplace(balance.layers_per_partition(), true);
        if (!is_new) {
            return;
        }
        SearchedBalance searched = simulated(balance);
        if (searched.found.feasible && (!best_ || searched.found.step_ns < best_->found.step_ns)) {
            best_ = std::move(searched);
        } else if (!searched.found.feasible) {
            searched.simulation = {};
            refused_.push_back(std::move(searched));
            if (limit_for(refused_.back().found, options_) < limit_for(refused_[least_refused_].found, options_)) {
                least_refused_ = refused_.size() - 1;
            }
        }
    }

    /// Without a bound on memory, tries all cuts, starting with those that need least with gpipe. Large models have too
    /// many, so this gets a part of the effort.
    void find_any_that_fits() {
        PartitionProblem problem = problems_.least_memory();
        problem.memory_limits = limits_;
        CutsInOrder cuts(order_by_peak(problem), kNoStep, effort_.most_nodes);
        const std::int64_t tasks_for_others = tasks_left_ - effort_.most_tasks / 8;
        std::optional<RankedBalance> cut;
        while (!best_ && tasks_left_ > tasks_for_others && (cut = cuts.next())) {
            try_cut(cut->balance);
        }
        tried_all_ = !best_ && !cut && cuts.is_exhausted();
    }

    /// The best so far, or else the one over the limit that needs least.
    std::vector<std::int64_t> best_layers() const {
        if (best_ || refused_.empty()) {
            return best_ ? best_->found.balance.layers_per_partition() : std::vector<std::int64_t>{};
        }
        return refused_[least_refused_].found.balance.layers_per_partition();
    }

    /// Moves cuts, and pairs of cuts, of the best so far by up to two layers while that helps. For costs that only the
    /// simulator knows.
    void climb() {
        std::vector<std::int64_t> from;
        while (from != best_layers()) {
            from = best_layers();
            for (std::size_t giver = 0; giver < from.size(); ++giver) {
                for (std::size_t taker = 0; taker < from.size(); ++taker) {
                    for (std::int64_t layers = 1; layers <= 2 && giver != taker; ++layers) {
                        std::vector<std::int64_t> moved = best_layers();
                        moved[giver] -= layers;
                        moved[taker] += layers;
                        if (moved[giver] > 0 && tasks_left_ > 0) {
                            try_cut(Balance(moved));
                        }
                    }
                }
            }
        }
    }

    void try_all() {
        for (const Balance& balance : all_balances(profile_->layers.size(), partitions_)) {
            if (tasks_left_ <= 0) {
                return;
            }
            try_cut(balance);
        }
        bound_ = best_ ? best_->found.step_ns : 0;
    }

    /// Simulates every cut that may be faster than the best so far, fastest first, until none or no effort is left.
    void enumerate() {
        const PartitionProblem problem = problems_.least();
        const PartitionTable table(problem);
        CutsInOrder cuts(order_by_step(problem, table), best_ ? best_->found.step_ns : kNoStep, effort_.most_nodes);
        while (tasks_left_ > 0) {
            const std::optional<RankedBalance> cut = cuts.next();
            if (!cut) {
                break;
            }
            if (best_ && cut->step_ns >= best_->found.step_ns) {
                bound_ = best_->found.step_ns;
                return;
            }
            if (best_ && problems_.step_at_least(cut->balance) >= best_->found.step_ns) {
                continue;
            }
            try_cut(cut->balance);
        }
        bound_ = std::min(cuts.lower_bound(), best_ ? best_->found.step_ns : kNoStep);
    }

    /// The cut that needs least on its fullest lane, as far as the effort allows.
    SearchedBalance least_memory() {
        SearchedBalance best = simulated(problems_.even_memory());
        if (!refused_.empty() &&
            limit_for(refused_[least_refused_].found, options_) < limit_for(best.found, options_)) {
            best = simulated(refused_[least_refused_].found.balance);
        }
        const Bytes limit = limit_for(best.found, options_);
        best.found.smallest_limit = limit;
        best.found.smallest_limit_is_exact = tried_all_;
        if (!effort_.explain_infeasible || !problems_.cost_is_a_bound()) {
            return best;
        }
        const PartitionProblem problem = problems_.within(limit);
        CutsInOrder cuts(order_by_peak(problem), limit, effort_.most_nodes);
        tasks_left_ = std::max<std::int64_t>(tasks_left_, effort_.most_tasks / 4);
        std::int64_t least = limit;
        while (tasks_left_ > 0) {
            const std::optional<RankedBalance> cut = cuts.next();
            if (!cut || cut->step_ns >= least) {
                best.found.smallest_limit_is_exact = cut || cuts.is_exhausted();
                break;
            }
            SearchedBalance other = simulated(cut->balance);
            if (const Bytes other_limit = limit_for(other.found, options_); other_limit < least) {
                least = other_limit;
                best = std::move(other);
            }
        }
        best.found.smallest_limit = least;
        return best;
    }

    static constexpr std::int64_t kNoStep = std::int64_t{1} << 60;

    const CheckedProfile& profile_;
    PipelineOptions options_;
    int partitions_;
    SearchEffort effort_;
    const SearchTables& tables_;
    CutProblems problems_;
    std::vector<Bytes> limits_;  // by lane; empty: none
    std::int64_t tasks_left_;
    std::int64_t bound_ = 0;  // proven by trying all cuts
    bool tried_all_ = false;  // every cut was tried and none fits
    std::optional<SearchedBalance> best_;
    std::vector<SearchedBalance> refused_;  // over the limit
    std::size_t least_refused_ = 0;         // position of the one that needs least, if there is any
    std::map<std::vector<std::int64_t>, bool> tried_;
    std::optional<std::vector<RankedBalance>> shortest_;
};

void check_request(const CheckedProfile& profile, const PipelineOptions& options, int partitions) {
    if (!options.placement.empty()) {
        throw UsageError("placement is given; a balance is sought with partition j on lane j; leave the placement out");
    }
    const std::vector<double> any(profile->layers.size(), 0.0);
    check_partition_request(any, partitions);
    std::vector<std::int64_t> parts(static_cast<std::size_t>(partitions), 1);
    parts.back() = static_cast<std::int64_t>(profile->layers.size()) - partitions + 1;
    PipelineOptions complete = options;
    complete.balance = Balance(parts);
    check_options(complete, profile->layers.size());
    check_master_weights(complete, profile->dtype);
    check_memory_known(profile, complete.hardware);
    TaskCosts(profile, complete);  // refuses what would not fit 64 bits, before a search that adds up
}

/// The fewest partitions, more than requested, that keep the limit.
std::optional<int> enough_partitions(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                                     const SearchTables& tables) {
    const std::vector<std::string>& devices = options.hardware.devices;
    const bool on_one_device = std::ranges::adjacent_find(devices, std::not_equal_to<>()) == devices.end();
    const bool has_fixed_lanes = options.schedule.file() != nullptr;
    if (has_fixed_lanes || !on_one_device || !options.hardware.speeds.empty() ||
        !options.hardware.memory_limits.empty()) {
        return std::nullopt;  // a further lane's device is not given
    }
    PipelineOptions wider = options;
    const int most = static_cast<int>(std::min<std::size_t>(profile->layers.size(), kMostPartitionsTried));
    const SearchEffort little{5'000, 50'000, false, false};
    int failures = 0;
    for (int n = partitions + 1; n <= most && failures < kMostFailures; ++n) {
        if (!devices.empty()) {
            wider.hardware.devices.resize(static_cast<std::size_t>(n), devices.front());
        }
        const CutProblems problems(profile, wider, n, tables);
        if (optimal_partitions(problems.least(), 1).empty()) {
            continue;
        }
        if (BalanceSearch(profile, wider, n, little, tables).optimal().found.feasible) {
            return n;
        }
        ++failures;
    }
    return std::nullopt;
}

std::string why_infeasible(const FoundBalance& found, const PipelineOptions& options) {
    const std::vector<Bytes> limits = memory_limits_of(options.hardware, static_cast<int>(found.peak_bytes.size()));
    const Bytes largest = *std::ranges::max_element(limits);
    const bool differ = lanes_differ(limits);
    const auto exact = [](Bytes bytes) {
        const std::string all = counted(bytes, "byte", "bytes");
        return bytes < 1024 ? all : format_bytes(bytes) + " (" + all + ")";
    };
    const auto bytes = [&](Bytes limit) { return differ ? exact(limit - largest) + " more" : exact(limit); };
    const std::string limit = "--memory-limit is " + memory_limit_text(options.hardware);
    if (!found.smallest_limit) {
        return limit + "; the balance " + to_string(found.balance) + " needs " + bytes(limit_for(found, options)) +
               " on one lane; use the optimal algorithm, which keeps the limit where it can";
    }
    std::string text = limit + "; no balance of " + counted(found.balance.num_partitions(), "partition", "partitions") +
                       " that keeps " + (differ ? "them" : "it") + " was found; " + bytes(*found.smallest_limit) +
                       (differ ? " on each lane" : " per lane") + " would be enough" +
                       (found.smallest_limit_is_exact ? ", and no less" : "");
    if (found.smallest_partitions) {
        text += ", or " + std::to_string(*found.smallest_partitions) + " lanes";
    }
    return text +
           "; ask plan, which tries other numbers of partitions and micro-batches, schedules and checkpoint modes";
}
}  // namespace

void add_reason(FoundBalance& found, const PipelineOptions& options) {
    const std::vector<Bytes> limits = memory_limits_of(options.hardware, static_cast<int>(found.peak_bytes.size()));
    for (std::size_t lane = 0; found.smallest_limit && lanes_differ(limits) && lane < limits.size(); ++lane) {
        found.smallest_limits.push_back(*found.smallest_limit - limit_gap(limits, lane));
    }
    found.infeasible_because = why_infeasible(found, options);
}

bool has_few_cuts(std::size_t layers, int partitions) {
    constexpr double kFewCuts = 64;
    double cuts = 1;
    for (int cut = 1; cut < partitions && cuts <= kFewCuts; ++cut) {
        cuts *= (static_cast<double>(layers) - cut) / cut;
    }
    return cuts <= kFewCuts;
}

std::vector<Balance> all_balances(std::size_t layers, int partitions) {
    std::vector<Balance> all;
    std::vector<std::int64_t> parts;
    const auto cut_rest = [&](const auto& self, std::int64_t rest) -> void {
        const std::int64_t left = partitions - std::ssize(parts);
        if (left == 1) {
            parts.push_back(rest);
            all.emplace_back(parts);
            parts.pop_back();
            return;
        }
        for (std::int64_t here = 1; here + left - 1 <= rest; ++here) {
            parts.push_back(here);
            self(self, rest - here);
            parts.pop_back();
        }
    };
    cut_rest(cut_rest, static_cast<std::int64_t>(layers));
    return all;
}

SearchedBalance search_balance(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                               BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables) {
    BalanceSearch search(profile, options, partitions, effort, tables);
    SearchedBalance searched = algorithm == BalanceAlgorithm::optimal ? search.optimal() : search.of_costs(algorithm);
    FoundBalance& found = searched.found;
    found.algorithm = algorithm;
    found.ranked_by_simulation = algorithm == BalanceAlgorithm::optimal && search.ranks_by_simulation();
    found.lower_bound_ns = std::min(search.lower_bound(), found.step_ns);
    found.optimal = found.feasible && found.step_ns == found.lower_bound_ns;
    if (!found.feasible) {
        if (effort.explain_infeasible && found.smallest_limit) {
            found.smallest_partitions = enough_partitions(profile, options, partitions, tables);
        }
        add_reason(found, options);
    }
    return searched;
}

FoundBalance find_balance(const CheckedProfile& profile, const PipelineOptions& options, int partitions,
                          BalanceAlgorithm algorithm, const SearchEffort& effort) {
    check_request(profile, options, partitions);
    const SearchTables tables(profile, options);
    return search_balance(profile, options, partitions, algorithm, effort, tables).found;
}

namespace {
/// The best of all cuts for the options' placement, or of those that the effort allows, the options' own first.
Balance best_of_all_cuts(const CheckedProfile& profile, PipelineOptions options, std::int64_t most_tasks) {
    std::vector<Balance> all = all_balances(profile->layers.size(), static_cast<int>(options.balance.num_partitions()));
    all.insert(all.begin(), options.balance);
    std::optional<std::pair<Bytes, Nanoseconds>> least;  // bytes above the limit, and the step
    Balance best = options.balance;
    for (const Balance& balance : all) {
        if (most_tasks <= 0) {
            break;
        }
        options.balance = balance;
        const Simulation simulation = simulate(profile, options, {.noise = false, .memory = true});
        most_tasks -= std::ssize(simulation.timeline.slices);
        const std::pair found{simulation.feasible ? 0 : largest_shortfall(simulation), simulation.step_time};
        if (!least || found < *least) {
            least = found;
            best = balance;
        }
    }
    return best;
}
}  // namespace

PipelineOptions placed_options(const CheckedProfile& profile, const PipelineOptions& options, int lanes,
                               BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables) {
    const std::size_t partitions = usual_partitions(options.schedule, static_cast<std::size_t>(lanes));
    PipelineOptions apart = options;
    apart.schedule = Schedule::gpipe;
    apart.update = Update::synchronous;
    apart.placement.clear();
    apart.hardware.devices.clear();
    apart.hardware.speeds.clear();
    apart.hardware.memory_limit.reset();
    apart.hardware.memory_limits.clear();
    apart.most_in_flight = 0;
    PipelineOptions placed = options;
    placed.placement = placement_of(options.schedule, partitions, static_cast<std::size_t>(lanes));
    const std::vector<double>& speeds = options.hardware.speeds;
    for (std::size_t j = 0; j < (speeds.empty() ? 0 : partitions); ++j) {
        const double own = speeds[lane_of(placed.placement, PartitionId{j}).index()];
        apart.hardware.speeds.push_back(
            is_bidirectional(options.schedule) ? std::min(own, speeds[mirrored(j, partitions)]) : own);
    }
    placed.balance =
        search_balance(profile, apart, static_cast<int>(partitions), algorithm, effort, tables).found.balance;
    if (algorithm == BalanceAlgorithm::optimal && has_few_cuts(profile->layers.size(), static_cast<int>(partitions))) {
        placed.balance = best_of_all_cuts(profile, placed, effort.most_tasks);
    }
    return placed;
}

FoundBalance unproved_balance(const Simulation& simulation, BalanceAlgorithm algorithm) {
    FoundBalance found;
    found.balance = simulation.options.balance;
    found.step_ns = simulation.step_time.count();
    found.algorithm = algorithm;
    for (const SimulatedLane& lane : simulation.lanes) {
        found.peak_bytes.push_back(lane.peak_bytes);
    }
    found.feasible = simulation.feasible;
    return found;
}

FoundBalance find_placed_balance(const CheckedProfile& profile, const PipelineOptions& options, int lanes,
                                 BalanceAlgorithm algorithm) {
    const std::vector<double> any(profile->layers.size(), 0.0);
    check_partition_request(any, static_cast<int>(usual_partitions(options.schedule, static_cast<std::size_t>(lanes))));
    PipelineOptions plain = options;
    plain.schedule = Schedule::gpipe;
    plain.placement.clear();
    const PipelineOptions placed = placed_options(profile, options, lanes, algorithm, {}, SearchTables(profile, plain));
    const Simulation simulation = simulate(profile, placed, {.noise = false, .memory = true});
    FoundBalance found = unproved_balance(simulation, algorithm);
    if (!found.feasible) {
        found.smallest_limit = limit_for(found, options);  // the cut and the order stay
        add_reason(found, options);
    }
    return found;
}
}  // namespace pipescope
