#include "simulator/automatic_schedule.h"

#include "schedule/schedule_table.h"
#include "simulator/contention.h"
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
    return all;
}

/// Most bytes that the micro-batches in flight hold on each lane, by the search's account.
std::vector<Bytes> bytes_in_flight(const ScheduleCosts& costs, const std::vector<LaneProgram>& programs) {
    std::vector<Bytes> most;
    for (const LaneProgram& program : programs) {
        Bytes held = 0;
        Bytes peak = 0;
        for (const TaskKey& task : program) {
            const ScheduleCosts::Partition& at = costs.partitions[static_cast<std::size_t>(task.partition)];
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

/// What one micro-batch holds on each lane.
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

    /// Simulates the schedule, keeps it if it is better, and returns the bytes by which each lane exceeds its limit;
    /// empty if all keep theirs.
    std::vector<Bytes> consider(const Schedule& schedule) {
        PipelineOptions options = options_;
        options.schedule = schedule;
        const Simulation simulation = simulate(profile_, options, {.noise = false, .memory = true});
        std::vector<Bytes> excess;
        Bytes most = 0;
        if (!simulation.feasible) {
            const std::vector<Bytes> limits =
                memory_limits_of(options.hardware, static_cast<int>(simulation.lanes.size()));
            for (std::size_t lane = 0; lane < limits.size(); ++lane) {
                excess.push_back(std::max<Bytes>(0, simulation.lanes[lane].peak_bytes - limits[lane]));
                most = std::max(most, excess.back());
            }
        }
        Bytes peak = 0;
        for (const SimulatedLane& lane : simulation.lanes) {
            peak = std::max(peak, lane.peak_bytes);
        }
        const Score score{most, simulation.step_time, peak};
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
    const int m = static_cast<int>(costs.micro_batches().size());
    ScheduleCosts least = costs_of(options, costs, m - 1);
    ScheduleCosts::Partition& last = least.partitions.back();
    const auto loss_ns = [&](int i) {
        return costs.duration(
            {{0, TaskKind::loss, static_cast<std::int32_t>(least.partitions.size()) - 1, i, -1}, last.lane, last.lane});
    };
    last.forward += std::min<std::int64_t>(0, loss_ns(-1) / m - loss_ns(m - 1));
    for (ScheduleCosts::Partition& each : least.partitions) {
        const double speed = std::max(1.0, speed_alone(profile, options, each.lane));
        for (std::int64_t* const ns : {&each.forward, &each.recompute, &each.backward, &each.backward_weight}) {
            *ns = static_cast<std::int64_t>(std::floor(static_cast<double>(*ns) / speed));
        }
    }
    return least;
}

/// Work of the micro-batches that are larger than the smallest, which step_bound() of least_costs() leaves out: of the
/// lane that has the most, at least what each lane has.
std::int64_t work_bound(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                        const ScheduleCosts& least) {
    const int m = static_cast<int>(costs.micro_batches().size());
    const ScheduleCosts larger = costs_of(options, costs, 0);
    const auto num_larger = std::ranges::count(costs.micro_batches(), costs.micro_batches().front());
    const bool is_even = num_larger == m;
    std::vector<double> work(static_cast<std::size_t>(least.num_lanes()));
    std::vector<std::int64_t> begins(work.size(), std::numeric_limits<std::int64_t>::max());
    std::int64_t arrives = 0;
    for (std::size_t j = 0; j < least.partitions.size(); ++j) {
        const ScheduleCosts::Partition& small = least.partitions[j];
        const ScheduleCosts::Partition& large = larger.partitions[j];
        const std::size_t lane = small.lane.index();
        const double speed = std::max(1.0, speed_alone(profile, options, small.lane));
        // Of the larger ones without recomputes and losses, which depend on the mode and on the mini-batch.
        const bool is_last = j + 1 == least.partitions.size();
        const std::int64_t loss =
            is_last ? costs.duration({{0, TaskKind::loss, static_cast<std::int32_t>(j), 0, -1}, large.lane, large.lane})
                    : 0;
        const auto of_large = static_cast<double>(large.forward - loss + large.backward + large.backward_weight);
        const auto of_small = static_cast<double>(small.forward + small.backward + small.backward_weight);
        const auto count = static_cast<double>(is_even ? 0 : num_larger);
        work[lane] += count * std::max(of_small, of_large / speed) + (m - count) * of_small;
        begins[lane] = std::min(begins[lane], arrives);
        arrives += small.forward + small.copy;
    }
    std::int64_t bound = 0;
    for (std::size_t lane = 0; lane < work.size(); ++lane) {
        bound = std::max(bound, begins[lane] + static_cast<std::int64_t>(std::floor(work[lane])));
    }
    return bound;
}

bool accepts(const Schedule& schedule, const PipelineShape& shape) {
    try {
        check_schedule(schedule, shape);
        return true;
    } catch (const UsageError&) {
        return false;
    }
}
}  // namespace

AutomaticSchedule automatic_schedule(const Profile& profile, const PipelineOptions& options) {
    PipelineOptions split = options;
    split.schedule = Schedule::zero_bubble_h1;  // for its costs: backward and backward_weight apart
    const TaskCosts task_costs(profile, split);
    const PipelineShape shape = shape_for_search(options, task_costs);
    ScheduleCosts costs = costs_of(options, task_costs, 0);  // of the larger micro-batches
    const ScheduleCosts least = least_costs(profile, options, task_costs);
    const Nanoseconds bound{std::max(step_bound(least), work_bound(profile, options, task_costs, least))};

    Best best(profile, options);
    for (int search = 0; search < kMostSearches; ++search) {
        const FoundSchedule found = find_schedule(costs);
        if (found.programs.empty()) {
            break;
        }
        const TaskGraph graph(shape, found.programs);
        const std::vector<Bytes> excess = best.consider(Schedule::from_csv("auto", to_csv(schedule_table(graph))));
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
        // Less for the lanes that need too much, in steps of at least a micro-batch.
        if (costs.limits.empty()) {
            costs.limits.assign(excess.size(), std::numeric_limits<Bytes>::max() / 4);
        }
        for (std::size_t lane = 0; lane < excess.size(); ++lane) {
            if (excess[lane] > 0) {
                costs.limits[lane] = in_flight[lane] - std::max<Bytes>(1, excess[lane]);
            }
        }
    }
    for (const Schedule& named : all_schedules()) {
        // gpipe holds all micro-batches at its loss, so it cannot keep a limit of those in flight.
        const bool holds_too_many =
            named == Schedule::gpipe && options.most_in_flight > 0 && options.most_in_flight < shape.num_micro_batches;
        if (is_synchronous(named) && !holds_too_many && accepts(named, shape)) {
            best.consider(named);
        }
    }
    return {*best.schedule(), bound};
}
}  // namespace pipescope
