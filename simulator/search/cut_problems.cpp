#include "simulator/search/cut_problems.h"

#include "balance/contiguous_partition.h"
#include "balance/partition_time.h"
#include "simulator/clock/contention.h"
#include "simulator/clock/gpipe_recurrence.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// Replaces the options' balance, which is for other partitions, by an arbitrary valid one.
PipelineOptions cut_anyhow(PipelineOptions options, int partitions, std::size_t layers) {
    std::vector<std::int64_t> parts(static_cast<std::size_t>(partitions), 1);
    parts.back() += static_cast<std::int64_t>(layers) - partitions;
    options.balance = Balance(std::move(parts));
    return options;
}
}  // namespace

BlockPartition partition_by_costs(BalanceAlgorithm algorithm, std::span<const double> costs, int partitions) {
    switch (algorithm) {
        case BalanceAlgorithm::block: return block_partition(costs, partitions);
        case BalanceAlgorithm::variance: return {variance_partition(costs, partitions)};
        default: return {minmax_partition(costs, partitions)};
    }
}

CutProblems::CutProblems(const Profile& profile, const PipelineOptions& options, int partitions,
                         const SearchTables& tables)
    : profile_(profile),
      options_(cut_anyhow(options, partitions, profile.layers.size())),
      partitions_(partitions),
      tables_(tables),
      times_(tables.times(options.checkpoint)),
      bounds_(profile, options_, partitions, tables.ranges) {
    std::set<std::pair<int, std::string>> devices;
    for (int lane = 0; lane < partitions_; ++lane) {
        devices.emplace(process_of(options_.hardware, LaneId{lane}, partitions_),
                        device_of(options_.hardware, LaneId{lane}));
    }
    lanes_are_apart_ = devices.size() == static_cast<std::size_t>(partitions_);
}

PartitionProblem CutProblems::least() const {
    PartitionProblem problem = problem_at(least_of(times_.large, times_.small), times_.intervals_least);
    if (times_.intervals_large != times_.intervals_small) {
        const auto larger = std::ranges::count(tables_.sizes, tables_.sizes.front());
        problem.two_sizes = TwoSizes{times_.intervals_large, times_.intervals_small, copies(times_.large),
                                     copies(times_.small), static_cast<int>(larger)};
    }
    return with_limits(std::move(problem), memory_limits_of(options_.hardware, partitions_));
}
PartitionProblem CutProblems::large() const {
    return with_limits(problem_at(times_.large, times_.intervals_large),
                       memory_limits_of(options_.hardware, partitions_));
}
PartitionProblem CutProblems::within(Bytes limit) const {
    const std::vector<Bytes> given = memory_limits_of(options_.hardware, partitions_);
    std::vector<Bytes> limits;
    for (std::size_t lane = 0; lane < static_cast<std::size_t>(partitions_); ++lane) {
        limits.push_back(limit - limit_gap(given, lane));
    }
    const PartitionProblem least = least_memory();
    PartitionProblem problem = with_limits(least, std::move(limits));
    problem.peak_bytes = least.peak_bytes;
    return problem;
}

PartitionProblem CutProblems::least_memory() const {
    PartitionProblem problem = problem_at(times_.large, times_.intervals_large);
    problem.peak_bytes = [this](PartitionId partition, LayerRange layers) {
        return bounds_.at_least(partition, layers);
    };
    return problem;
}

PartitionProblem CutProblems::whatever_waits() const {
    PartitionProblem problem = large();
    problem.peak_bytes = [this](PartitionId partition, LayerRange layers) {
        return bounds_.at_most(partition, layers);
    };
    return problem;
}

bool CutProblems::cost_is_a_bound() const {
    // The closed form knows one link. Everything else ignored here (shared links, recompute that waits, replicas) only
    // makes a step longer. So do lanes that slow each other down, but then the best cut is often far above the bound,
    // and a search by simulation finds it sooner.
    const bool is_known_order = options_.schedule == Schedule::gpipe && options_.update == Update::synchronous &&
                                options_.backward_order == BackwardOrder::last_first && options_.most_in_flight == 0;
    return is_known_order && copies_take_one_link() && (lanes_are_apart_ || profile_.co_running_slowdown.empty());
}

bool CutProblems::lanes_share() const {
    const Link& link = options_.hardware.link;
    const bool shares_link =
        partitions_ > 1 && (link.sharing != LinkSharing::none || waits_for_receiver(link.protocol));
    return !lanes_are_apart_ || shares_link || (partitions_ > 1 && (profile_.launch_ns > 0 || has_launches(profile_)));
}

PartitionProblem CutProblems::problem_at(const SizedProfile& sized,
                                         std::shared_ptr<const IntervalTable> intervals) const {
    PartitionProblem problem;
    problem.partitions = partitions_;
    problem.micro_batches = static_cast<int>(tables_.sizes.size());
    problem.checkpoint = options_.checkpoint;
    problem.forward_ns = sized.forward;
    problem.recompute_ns = sized.recompute;
    problem.backward_ns = sized.backward;
    problem.kept_forward_ns = sized.kept_forward;
    problem.intervals = std::move(intervals);
    problem.copy_forward_ns = problem.copy_backward_ns = copies(sized);
    for (int j = 0; j + 1 < partitions_; ++j) {
        problem.free_boundary.push_back(is_free(j));
    }
    problem.speeds = options_.hardware.speeds;
    problem.loss_ns = loss_ns();
    return problem;
}

std::vector<std::int64_t> CutProblems::copies(const SizedProfile& sized) const {
    std::vector<std::int64_t> copies;
    for (std::size_t l = 0; l + 1 < sized.output.size(); ++l) {
        copies.push_back(copy_ns(sized.output[l]));
    }
    return copies;
}
std::int64_t CutProblems::copy_ns(Bytes bytes) const {
    return std::llround(options_.hardware.link.copy_ns(static_cast<double>(bytes)));
}
bool CutProblems::copies_take_one_link() const {
    for (int j = 0; j + 1 < partitions_; ++j) {
        if (!is_free(j) && link_between(options_.hardware, LaneId{j}, LaneId{j + 1}) != options_.hardware.link) {
            return false;
        }
    }
    return true;
}
bool CutProblems::is_free(int boundary) const {
    return share_device(options_.hardware, LaneId{boundary}, LaneId{boundary + 1}, partitions_);
}
std::int64_t CutProblems::loss_ns() const {
    return rounded_time(loss_time_alone(profile_, replica_batch(options_)),
                        speed_of(options_.hardware, LaneId{partitions_ - 1}));
}

PartitionProblem CutProblems::with_limits(PartitionProblem problem, std::vector<Bytes> limits) const {
    if (limits.empty() || !cost_is_a_bound()) {  // the memory bounds, too, assume a GPipe step
        return problem;
    }
    problem.memory_limits = limits;
    problem.peak_bytes = [this, limits](PartitionId partition, LayerRange layers) {
        const Bytes above = bounds_.above_at_least(partition, layers);
        return above <= limits[partition.index()] ? above : bounds_.at_least(partition, layers);
    };
    problem.exceeds_limit = [this, limits](PartitionId partition, LayerRange layers) {
        return bounds_.below_at_least(layers) > limits[partition.index()];
    };
    return problem;
}

std::int64_t CutProblems::step_at_least(const Balance& balance) const {
    const auto times_at = [&](const SizedProfile& sized) {
        GPipeTimes times;
        for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
            const PartitionId partition{static_cast<std::int64_t>(j)};
            const LayerRange layers = balance.layers_of(partition);
            const auto of = [&](const std::vector<double>& ns) {
                return partition_time(std::span(ns).subspan(layers.first.index(), layers.size()),
                                      speed_of(options_.hardware, LaneId{partition.value()}));
            };
            times.forward.push_back(of(sized.forward));
            times.kept_forward.push_back(of(sized.kept_forward));
            times.recompute.push_back(of(sized.recompute));
            times.backward.push_back(of(sized.backward));
            if (j + 1 < balance.num_partitions()) {
                const std::int64_t copy =
                    is_free(static_cast<int>(j)) ? 0 : copy_ns(sized.output[layers.end.index() - 1]);
                times.copy_forward.push_back(copy);
                times.copy_backward.push_back(copy);
            }
        }
        return times;
    };
    const GPipeTimes large = times_at(times_.large);
    const auto num_large = std::ranges::count(tables_.sizes, tables_.sizes.front());
    const auto m = static_cast<int>(tables_.sizes.size());
    const GPipeTimes small = num_large == m ? large : times_at(times_.small);
    return GPipeRecurrence().step(large, small, m, static_cast<int>(num_large), options_.checkpoint, loss_ns());
}

std::int64_t CutProblems::work_bound() const {
    const SizedProfile least = least_of(times_.large, times_.small);
    std::vector<double> costs;
    for (std::size_t l = 0; l < least.forward.size(); ++l) {
        costs.push_back(std::min(least.forward[l], least.kept_forward[l]) + least.backward[l]);
    }
    const Balance balance = minmax_partition(costs, partitions_);
    double largest = 0;
    for (int j = 0; j < partitions_; ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{j});
        double sum = 0;
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            sum += costs[l];
        }
        largest = std::max(largest, sum);
    }
    double fastest = 0;
    for (int lane = 0; lane < partitions_; ++lane) {
        fastest = std::max(fastest, speed_of(options_.hardware, LaneId{lane}));
    }
    // Two roundings a micro-batch, half a nanosecond each.
    return std::max<std::int64_t>(
        0, static_cast<std::int64_t>((largest / fastest - 1) * static_cast<double>(tables_.sizes.size())));
}

std::vector<double> CutProblems::layer_costs() const {
    return layer_times(times_.large, options_.checkpoint, static_cast<int>(tables_.sizes.size()));
}

Balance CutProblems::even_memory() const {
    std::vector<double> costs;
    for (std::size_t l = 0; l < profile_.layers.size(); ++l) {
        const auto layer = static_cast<std::int64_t>(l);
        costs.push_back(static_cast<double>(bounds_.below_at_least({LayerId{layer}, LayerId{layer + 1}})));
    }
    return minmax_partition(costs, partitions_);
}
}  // namespace pipescope
