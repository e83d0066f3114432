#include "simulator/automatic_schedule.h"

#include "schedule/schedule_table.h"
#include "simulator/contention.h"
#include "simulator/planner.h"
#include "simulator/schedule_search.h"
#include "simulator/simulation.h"
#include "simulator/task_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr int kMostSearches = 6;

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
    for (int j = 0; j < shape.num_partitions; ++j) {
        const LaneId lane = shape.lane_of(PartitionId{j});
        const bool is_last = j + 1 == shape.num_partitions;
        const LaneId next = is_last ? lane : shape.lane_of(PartitionId{j + 1});
        const auto ns = [&](TaskKind kind) { return costs.duration({{0, kind, j, i, -1}, lane, next}); };
        const LayerRange layers = options.balance.layers_of(PartitionId{j});
        ScheduleCosts::Partition& each = all.partitions.emplace_back();
        each.lane = lane;
        each.forward = ns(TaskKind::forward) + (is_last ? ns(TaskKind::loss) : 0);
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

/// The same for micro-batches of the one or two sizes that there are.
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

/// What one of the larger micro-batches holds on each lane.
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
    Best(const Profile& profile, const PipelineOptions& options) : profile_(profile), options_(options) {}

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

private:
    const Profile& profile_;
    const PipelineOptions& options_;
    std::optional<Schedule> schedule_;
    using Score = std::tuple<Bytes, Nanoseconds, Bytes>;  // excess, step, highest peak: less is better
    Score score_;
    bool is_better_ = false;
};

/// The costs for a bound: those of the smallest micro-batch, on lanes that run as fast as they ever do, and with the
/// part of a loss of the whole mini-batch if that is shorter.
ScheduleCosts least_costs(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs) {
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
        const std::int64_t of_other =
            other.forward - (is_last ? loss_ns(0) : 0) + other.backward + other.backward_weight;
        each.forward += is_last ? std::min<std::int64_t>(0, loss_ns(-1) / m - loss_ns(m - 1)) : 0;
        const double speed = std::max(1.0, speed_alone(profile, options, each.lane));
        const auto fastest = [speed](std::int64_t ns) {
            return static_cast<std::int64_t>(std::floor(static_cast<double>(ns) / speed));
        };
        for (std::int64_t* const ns : {&each.forward, &each.recompute, &each.backward, &each.backward_weight}) {
            *ns = fastest(*ns);
        }
        const std::int64_t own = each.forward + each.backward + each.backward_weight;
        each.larger = num_larger * std::max<std::int64_t>(0, fastest(of_other) - own);
    }
    for (std::size_t lane = 0; lane < least.updates.size(); ++lane) {
        const double speed = std::max(1.0, speed_alone(profile, options, LaneId{static_cast<std::int64_t>(lane)}));
        least.updates[lane] = static_cast<std::int64_t>(std::floor(static_cast<double>(least.updates[lane]) / speed));
    }
    return least;
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
TaskCosts split_costs(const Profile& profile, const PipelineOptions& options) {
    PipelineOptions split = options;
    split.schedule = Schedule::zero_bubble_h1;
    return TaskCosts(profile, split);
}
}  // namespace

Nanoseconds least_step(const Profile& profile, const PipelineOptions& options) {
    return Nanoseconds{step_bound(least_costs(profile, options, split_costs(profile, options)))};
}

AutomaticSchedule automatic_schedule(const Profile& profile, const PipelineOptions& options) {
    const TaskCosts task_costs = split_costs(profile, options);
    const PipelineShape shape = shape_for_search(options, task_costs);
    ScheduleCosts costs = costs_of(options, task_costs);
    const Nanoseconds bound{step_bound(least_costs(profile, options, task_costs))};

    Best best(profile, options);
    for (int search = 0; search < kMostSearches; ++search) {
        const FoundSchedule found = find_schedule(costs);
        if (found.programs.empty()) {
            break;
        }
        const TaskGraph graph(shape, found.programs);
        const std::vector<Shortfall> excess = best.consider(Schedule::from_csv("auto", to_csv(schedule_table(graph))));
        const std::vector<Bytes> in_flight = bytes_in_flight(costs, found.programs);
        if (excess.empty()) {
            // The same step may need less memory.
            if (!best.is_better()) {
                break;
            }
            costs.limits = bytes_of_one(costs);
            for (std::size_t lane = 0; lane < in_flight.size(); ++lane) {
                costs.limits[lane] = std::max(costs.limits[lane], in_flight[lane] - in_flight[lane] / 4);
            }
            continue;
        }
        // Less for the lanes that need too much.
        if (costs.limits.empty()) {
            costs.limits.assign(in_flight.size(), std::numeric_limits<Bytes>::max() / 4);
        }
        for (const Shortfall& each : excess) {
            costs.limits[each.lane.index()] = in_flight[each.lane.index()] - each.bytes();
        }
    }
    for (const Schedule& named : all_schedules()) {
        if (is_synchronous(named) && accepts(options, named, shape)) {
            best.consider(named);
        }
    }
    return {*best.schedule(), bound};
}
}  // namespace pipescope
