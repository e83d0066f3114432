#include "simulator/search/automatic_schedule.h"

#include "schedule/schedule_programs.h"
#include "schedule/schedule_table.h"
#include "simulator/clock/contention.h"
#include "simulator/clock/task_costs.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/memory/step_memories.h"
#include "simulator/search/schedule_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
PipelineShape shape_for_search(const PipelineOptions& options, const TaskCosts& costs) {
    return {.num_partitions = static_cast<int>(options.balance.num_partitions()),
            .num_micro_batches = static_cast<int>(costs.micro_batches().size()),
            .checkpoint = options.checkpoint,
            .placement = options.placement,
            .loss = LossScope::micro_batch,
            .backward_order = BackwardOrder::first_first,
            .recompute_start = options.recompute_start};
}

/// The costs of micro-batch i, for all micro-batches. Precondition: `costs` were made with a split backward.
ScheduleCosts costs_of(const PipelineOptions& options, const TaskCosts& costs, int i) {
    const PipelineShape shape = shape_for_search(options, costs);
    const SizedProfile& sized = costs.sized(i);
    ScheduleCosts all;
    all.micro_batches = shape.num_micro_batches;
    all.checkpoint = options.checkpoint;
    all.recompute_start = options.recompute_start;
    const auto sum = [](const std::vector<Bytes>& bytes, LayerRange layers) {
        Bytes of_range = 0;
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            of_range += bytes[l];
        }
        return of_range;
    };
    const bool all_keep = !is_checkpointed(options.checkpoint, MicroBatchId{0}, shape.num_micro_batches);
    for (int j = 0; j < shape.num_partitions; ++j) {
        const LaneId lane = shape.lane_of(PartitionId{j});
        const bool is_last = j + 1 == shape.num_partitions;
        const LaneId next = is_last ? lane : shape.lane_of(PartitionId{j + 1});
        const auto ns = [&](TaskKind kind) { return costs.duration({{0, kind, j, i, -1}, lane, next}); };
        const LayerRange layers = options.balance.layers_of(PartitionId{j});
        ScheduleCosts::Partition& each = all.partitions.emplace_back();
        each.lane = lane;
        const std::int64_t loss = is_last ? ns(TaskKind::loss) : 0;
        each.forward = costs.forward(i, j, all_keep) + loss;
        each.kept_more = costs.forward(i, j, true) + loss - each.forward;
        each.recompute = ns(TaskKind::recompute);
        each.backward = ns(TaskKind::backward);
        each.backward_weight = ns(TaskKind::backward_weight);
        each.copy = is_last ? 0 : ns(TaskKind::copy_forward);
        each.input = j == 0 ? sized.input : sized.output[layers.first.index() - 1];
        each.saved = std::max(each.input, sum(sized.saved, layers));
    }
    for (int lane = 0; lane < all.num_lanes() && options.update == Update::staggered; ++lane) {
        const LaneId id{lane};
        all.updates.push_back(costs.duration({{0, TaskKind::optimizer, 0, -1, -1}, id, id}));
    }
    return all;
}

/// Costs of micro-batches of one size or two.
ScheduleCosts costs_of(const PipelineOptions& options, const TaskCosts& costs) {
    const std::vector<std::int64_t>& sizes = costs.micro_batches();
    ScheduleCosts all = costs_of(options, costs, 0);
    if (sizes.front() != sizes.back()) {
        all.num_larger = static_cast<int>(std::ranges::count(sizes, sizes.front()));
        all.smaller = costs_of(options, costs, static_cast<int>(sizes.size()) - 1).partitions;
    }
    return all;
}

/// Most bytes that the micro-batches in flight hold on each lane, by the search's account.
std::vector<Bytes> bytes_in_flight(const ScheduleCosts& costs, const std::vector<LaneProgram>& programs) {
    std::vector<Bytes> most;
    for (const LaneProgram& program : programs) {
        Bytes held = 0;
        Bytes peak = 0;
        for (const TaskKey& task : program) {
            const ScheduleCosts::Partition& at = costs.at(task.partition, task.micro_batch);
            const bool recomputes =
                is_checkpointed(costs.checkpoint, MicroBatchId{task.micro_batch}, costs.micro_batches);
            held += task.kind == TaskKind::forward           ? (recomputes ? at.input : at.saved)
                    : task.kind == TaskKind::recompute       ? at.saved - at.input
                    : task.kind == TaskKind::backward_weight ? -at.saved
                                                             : 0;
            peak = std::max(peak, held);
        }
        most.push_back(peak);
    }
    return most;
}

/// Bytes that one of the larger micro-batches holds on each lane.
std::vector<Bytes> bytes_of_one(const ScheduleCosts& costs) {
    std::vector<Bytes> bytes(static_cast<std::size_t>(costs.num_lanes()));
    for (const ScheduleCosts::Partition& each : costs.partitions) {
        bytes[each.lane.index()] += each.saved;
    }
    return bytes;
}

/// The quickest schedule that fits so far, or the one that fits best.
class Best {
public:
    Best(const CheckedProfile& profile, const PipelineOptions& options) : profile_(profile), options_(options) {}

    /// Simulates the schedule, and keeps it if it is better. Returns the lanes that exceed their limits.
    std::vector<Shortfall> consider(const Schedule& schedule) {
        PipelineOptions options = options_;
        options.schedule = schedule;
        const Simulation simulation = simulate(profile_, options, {.noise = false, .memory = true});
        std::vector<Shortfall> excess = shortfalls(simulation);
        const Bytes most = excess.empty() ? 0 : excess.front().bytes();
        const Score score{most, simulation.step_time, highest_peak(simulation)};
        is_better_ = !schedule_ || score < score_;
        if (is_better_) {
            schedule_ = schedule;
            score_ = score;
        }
        return excess;
    }

    /// True if the last schedule considered is the best so far.
    bool is_better() const { return is_better_; }
    const std::optional<Schedule>& schedule() const { return schedule_; }
    bool keeps_limits() const { return std::get<0>(score_) == 0; }
    Nanoseconds step() const { return std::get<1>(score_); }

private:
    const CheckedProfile& profile_;
    const PipelineOptions& options_;
    std::optional<Schedule> schedule_;
    using Score = std::tuple<Bytes, Nanoseconds, Bytes>;  // excess, step, highest peak: less is better
    Score score_;
    bool is_better_ = false;
};

/// Searches orders that keep the options' memory limits. The search counts only what micro-batches hold from forward to
/// backward_weight, so it is given more or less memory, and the simulator, which counts everything, judges.
class SearchesWithinLimits {
public:
    SearchesWithinLimits(ScheduleCosts costs, const PipelineShape& shape, Best& best)
        : costs_(std::move(costs)), shape_(shape), best_(best), one_(bytes_of_one(costs_)) {}

    /// Searches without a limit, then with less for the lanes that need too much. If none does, looks for an equal step
    /// in less memory. Returns true if none did at once.
    bool follow_excess() {
        bool is_tight = false;
        std::vector<Bytes> limits;
        for (int search = 0; search < kMostSearches; ++search) {
            const std::optional<Found> found = search_with(limits);
            if (!found) {
                break;
            }
            const std::vector<Bytes> before = limits;
            if (found->excess.empty()) {
                if (!found->is_better) {
                    break;
                }
                limits = one_;
                for (std::size_t lane = 0; lane < limits.size(); ++lane) {
                    limits[lane] = std::max(limits[lane], found->in_flight[lane] - found->in_flight[lane] / 4);
                }
                continue;
            }
            is_tight = is_tight || search == 0;
            if (limits.empty()) {
                limits.assign(one_.size(), std::numeric_limits<Bytes>::max() / 4);
            }
            for (const Shortfall& each : found->excess) {
                const std::size_t lane = each.lane.index();
                limits[lane] = std::max(one_[lane], found->in_flight[lane] - each.bytes());
            }
            if (limits == before) {
                break;
            }
        }
        return !is_tight;
    }

    /// Gives all lanes as many micro-batches at a time as they can hold, then one more to those that have room, then
    /// fewer to later lanes, as in 1F1B.
    void fill_up() {
        const int fit = fill_evenly();
        fill_unevenly(fit);
        taper(fit);
    }

    /// If there are so few orders that all can be listed: tries those that are quicker than the best, quickest first.
    void try_all_orders() {
        int tries = kMostOrdersTried;
        for_each_order(costs_, [&](const FoundSchedule& order) {
            if (best_.keeps_limits() && Nanoseconds{order.step_ns} >= best_.step()) {
                return false;
            }
            best_.consider(Schedule::from_csv(kName, csv_of(order.programs)));
            return --tries > 0;
        });
    }

private:
    static constexpr const char* kName = "auto";
    static constexpr int kMostSearches = 6;
    static constexpr int kMostOrdersTried = 2000;

    struct Found {
        std::vector<Shortfall> excess;
        std::vector<Bytes> in_flight;  // most bytes by lane, by the search's account
        bool is_better = false;        // than all before
    };

    /// Returns the most micro-batches at a time that all lanes can hold.
    int fill_evenly() {
        const int m = costs_.micro_batches;
        int fit = 0;
        int too_many = m + 1;
        while (too_many - fit > 1 && trials_ > 0) {
            const int k = too_many > m ? std::min(std::max(1, 2 * fit), m) : (fit + too_many) / 2;
            const std::optional<Found> found = hold(std::vector<int>(one_.size(), k));
            (found && found->excess.empty() ? fit : too_many) = k;
        }
        return fit;
    }

    void fill_unevenly(int fit) {
        const int m = costs_.micro_batches;
        std::vector<int> held(one_.size(), fit);
        std::vector<bool> is_full(one_.size(), fit == 0);
        while (trials_ > 0) {
            std::vector<int> more = held;
            for (std::size_t lane = 0; lane < more.size(); ++lane) {
                more[lane] += is_full[lane] || held[lane] == m ? 0 : 1;
            }
            if (more == held) {
                return;
            }
            const std::optional<Found> found = hold(more);
            if (!found) {
                return;
            }
            held = found->excess.empty() ? more : held;
            const std::vector<bool> before = is_full;
            for (const Shortfall& each : found->excess) {
                const std::size_t lane = each.lane.index();
                if (before[lane]) {  // its neighbours send too early
                    is_full[lane == 0 ? 0 : lane - 1] = true;
                    is_full[std::min(lane + 1, is_full.size() - 1)] = true;
                }
                is_full[lane] = true;
            }
            if (!found->excess.empty() && is_full == before) {
                return;
            }
        }
    }

    void taper(int fit) {
        constexpr int kMostMore = 2;
        const auto lanes = static_cast<int>(one_.size());
        for (int more = 0; more <= kMostMore; ++more) {
            for (int k = std::max(1, fit); k <= std::min({costs_.micro_batches, lanes + more, fit + 3}); ++k) {
                std::vector<int> held;
                for (int lane = 0; lane < lanes; ++lane) {
                    held.push_back(std::clamp(lanes - lane + more, 1, k));
                }
                const std::optional<Found> found = hold(held);
                if (!found || !found->excess.empty()) {
                    break;
                }
            }
        }
    }

    /// Empty if no order keeps the limits by the search's account.
    std::optional<Found> search_with(const std::vector<Bytes>& limits) {
        ScheduleCosts costs = costs_;
        costs.limits = limits;
        const FoundSchedule found = find_schedule(costs);
        if (found.programs.empty()) {
            return std::nullopt;
        }
        if (found.plain.empty()) {
            return judge(costs, found.programs);
        }
        Found plain = judge(costs, found.plain);
        Found earlier = judge(costs, found.programs);
        plain.is_better = earlier.is_better = plain.is_better || earlier.is_better;
        return plain.excess.empty() && !earlier.excess.empty() ? earlier : plain;
    }

    Found judge(const ScheduleCosts& costs, const std::vector<LaneProgram>& programs) {
        const std::string csv = csv_of(programs);
        const auto [known, is_new] = excess_.try_emplace(csv);
        if (is_new) {
            known->second = best_.consider(Schedule::from_csv(kName, csv));
        }
        return {known->second, bytes_in_flight(costs, programs), is_new && best_.is_better()};
    }

    /// Searches with that many micro-batches at a time, by lane. Returns what exceeds the limits least, or an order
    /// that keeps them.
    std::optional<Found> hold(const std::vector<int>& micro_batches) {
        --trials_;
        ScheduleCosts costs = costs_;
        costs.limits = one_;
        for (std::size_t lane = 0; lane < one_.size(); ++lane) {
            costs.limits[lane] *= micro_batches[lane];
        }
        std::optional<Found> least = search_with(costs.limits);
        for (const FoundSchedule& plain : plain_schedules(costs)) {
            Found found = judge(costs, plain.programs);
            if (!least || (!least->excess.empty() &&
                           (found.excess.empty() || found.excess.front().bytes() < least->excess.front().bytes()))) {
                least = std::move(found);
            }
        }
        return least;
    }

    std::string csv_of(const std::vector<LaneProgram>& programs) const {
        return to_csv(schedule_table(TaskGraph(shape_, programs)));
    }

    const ScheduleCosts costs_;
    const PipelineShape& shape_;
    Best& best_;
    const std::vector<Bytes> one_;                          // by lane
    std::map<std::string, std::vector<Shortfall>> excess_;  // of the orders simulated, by their CSV
    int trials_ = 24;
};

/// The costs for a bound: those of the micro-batch for which each is the least, on lanes that run as fast as they ever
/// do, and with the part of a loss of the whole mini-batch if that is shorter. Most costs grow with the micro-batch,
/// but measured ones may also fall.
ScheduleCosts least_costs(const PipelineOptions& options, const TaskCosts& costs) {
    const std::vector<std::int64_t>& sizes = costs.micro_batches();
    const int m = static_cast<int>(sizes.size());
    ScheduleCosts least = costs_of(options, costs, m - 1);
    const ScheduleCosts large = costs_of(options, costs, 0);
    const auto num_larger = sizes.front() == sizes.back() ? 0 : std::ranges::count(sizes, sizes.front());
    for (std::size_t j = 0; j < least.partitions.size(); ++j) {
        ScheduleCosts::Partition& each = least.partitions[j];
        const ScheduleCosts::Partition& other = large.partitions[j];
        const auto loss_ns = [&](int i) {
            return costs.duration({{0, TaskKind::loss, static_cast<std::int32_t>(j), i, -1}, each.lane, each.lane});
        };
        const bool is_last = j + 1 == least.partitions.size();
        // Recomputes depend on the mode, and losses on the mini-batch: neither counts for the larger ones.
        const auto shortest = [](const ScheduleCosts::Partition& of) {
            return of.forward + std::min<std::int64_t>(0, of.kept_more) + of.backward + of.backward_weight;
        };
        const std::int64_t loss_of_other = is_last ? loss_ns(0) : 0;
        const std::int64_t own_loss = is_last ? loss_ns(m - 1) : 0;
        const std::int64_t least_loss = is_last ? std::min(own_loss, loss_ns(-1) / m) : 0;
        const std::int64_t of_other = shortest(other) - loss_of_other;
        each.forward = std::min(each.forward - own_loss, other.forward - loss_of_other) + least_loss;
        each.kept_more = std::min(each.kept_more, other.kept_more);
        each.recompute = std::min(each.recompute, other.recompute);
        each.backward = std::min(each.backward, other.backward);
        each.backward_weight = std::min(each.backward_weight, other.backward_weight);
        each.copy = std::min(each.copy, other.copy);
        each.larger = num_larger * std::max<std::int64_t>(0, of_other - shortest(each));
    }
    return least;
}

/// Parameters, gradients and the optimizer's state, by lane.
std::vector<Bytes> constant_bytes(const CheckedProfile& profile, const PipelineOptions& options,
                                  const ScheduleCosts& costs) {
    const OptimizerStates states = optimizer_states(options, profile->dtype);
    std::vector<Bytes> constant(static_cast<std::size_t>(costs.num_lanes()));
    for (std::size_t j = 0; j < costs.partitions.size(); ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profile->layers[l];
            constant[costs.partitions[j].lane.index()] +=
                layer.parameter_bytes + layer.buffer_bytes + layer.gradient_bytes + states.of(layer);
        }
    }
    return constant;
}

/// The least that a micro-batch holds on each partition at every instant from the end of its forward, or its recompute,
/// to the start of its backward, whole or in halves, or of its backward_weight.
std::vector<Bytes> least_held(const CheckedProfile& profile, const PipelineOptions& options, const TaskCosts& costs) {
    PipelineShape shape = shape_for_search(options, costs);
    shape.skips = costs.routes();
    shape.shared = costs.shared();
    std::vector<Bytes> least(static_cast<std::size_t>(shape.num_partitions), std::numeric_limits<Bytes>::max());
    std::set<std::pair<bool, bool>> families;  // memory depends on nothing else of a schedule that drains
    for (const Schedule& schedule : all_schedules()) {
        const bool inside = needs_loss_inside(schedule);
        if (!is_synchronous(schedule) || !families.emplace(inside, splits_backward(schedule)).second) {
            continue;
        }
        PipelineOptions with = options;
        with.schedule = schedule;
        shape.loss = inside ? LossScope::micro_batch : LossScope::mini_batch;
        const TaskGraph graph(shape, inside ? model_parallel_programs(shape) : gpipe_programs(shape));
        StepMemories memories(profile, with, costs, graph);
        for (int j = 0; j < shape.num_partitions; ++j) {
            Bytes& held = least[static_cast<std::size_t>(j)];
            for (int i = 0; i < shape.num_micro_batches; ++i) {
                const PartitionWork& work = memories.work({MicroBatchId{i}, PartitionId{j}});
                held = std::min({held, work.graph(), work.is_split() ? work.graph_between() : held});
            }
        }
    }
    return least;
}

/// Below the step of every order that keeps the options' memory limits.
Nanoseconds bound_of(const CheckedProfile& profile, const PipelineOptions& options, const TaskCosts& task_costs) {
    ScheduleCosts costs = least_costs(options, task_costs);
    costs.limits = memory_limits_of(options.hardware, costs.num_lanes());
    if (!costs.limits.empty()) {
        const std::vector<Bytes> constant = constant_bytes(profile, options, costs);
        for (std::size_t lane = 0; lane < costs.limits.size(); ++lane) {
            costs.limits[lane] -= constant[lane];
        }
        const std::vector<Bytes> held = least_held(profile, options, task_costs);
        for (std::size_t j = 0; j < held.size(); ++j) {
            costs.partitions[j].saved = held[j];
        }
    }
    const double share = least_work_share(options.schedule, options.pair_overlap.value_or(0));
    return Nanoseconds{static_cast<std::int64_t>(static_cast<double>(step_bound(costs)) * share)};
}

bool accepts(const PipelineOptions& options, const Schedule& schedule, const PipelineShape& shape) {
    PipelineOptions with = options;
    with.schedule = schedule;
    try {
        check_options(with, options.balance.num_layers());
        check_schedule(schedule, shape);
        return true;
    } catch (const UsageError&) {
        return false;
    }
}
/// With backward and backward_weight apart.
TaskCosts split_costs(const CheckedProfile& profile, const PipelineOptions& options) {
    PipelineOptions split = options;
    split.schedule = Schedule::automatic;
    return TaskCosts(profile, split);
}
}  // namespace

PipelineOptions without_limits(PipelineOptions options) {
    options.hardware.memory_limit.reset();
    options.hardware.memory_limits.clear();
    return options;
}

std::vector<Schedule> schedules_for(const CheckedProfile& profile, const PipelineOptions& options) {
    const PipelineShape shape = shape_for_search(options, split_costs(profile, options));
    std::vector<Schedule> schedules;
    for (const Schedule& named : all_schedules()) {
        if (is_synchronous(named) && !is_bidirectional(named) && accepts(options, named, shape)) {
            schedules.push_back(named);
        }
    }
    return schedules;
}

Nanoseconds least_step(const CheckedProfile& profile, const PipelineOptions& options) {
    return bound_of(profile, options, split_costs(profile, options));
}

AutomaticSchedule automatic_schedule(const CheckedProfile& profile, const PipelineOptions& options) {
    const TaskCosts task_costs = split_costs(profile, options);
    const PipelineShape shape = shape_for_search(options, task_costs);

    Best best(profile, options);
    SearchesWithinLimits searches(costs_of(options, task_costs), shape, best);
    const bool is_tight = !searches.follow_excess();
    const Nanoseconds bound = bound_of(profile, options, task_costs);
    constexpr int kNear = 100;  // 1 % above the bound
    if (is_tight && !(best.keeps_limits() && best.step() <= bound + bound / kNear)) {
        searches.fill_up();
    }
    for (const Schedule& named : schedules_for(profile, options)) {
        best.consider(named);
    }
    if (is_tight) {
        searches.try_all_orders();
    }
    return {*best.schedule(), best.keeps_limits() ? bound : bound_of(profile, without_limits(options), task_costs)};
}

Simulation find_and_simulate(const CheckedProfile& profile, const PipelineOptions& options,
                             const SimulationDetail& detail) {
    if (options.schedule != Schedule::automatic) {
        return simulate(profile, options, detail);
    }
    check_simulated(profile, options);
    const AutomaticSchedule found = automatic_schedule(profile, options);
    PipelineOptions as_found = options;
    as_found.schedule = found.schedule;
    Simulation simulation = simulate(profile, as_found, detail);
    simulation.lower_bound = found.lower_bound;
    return simulation;
}

void add_lower_bound(const CheckedProfile& profile, Simulation& simulation) {
    const PipelineOptions& options = simulation.options;
    if (!simulation.lower_bound && is_synchronous(options.schedule) && !is_bidirectional(options.schedule)) {
        simulation.lower_bound = least_step(profile, simulation.feasible ? options : without_limits(options));
    }
}
}  // namespace pipescope
