#include "simulator/balance_search.h"

#include "balance/optimal_partition.h"
#include "balance/partition.h"
#include "schedule/error.h"
#include "schedule/micro_batches.h"
#include "simulator/memory_bounds.h"
#include "simulator/simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kCandidates = 8;

class BalanceSearch {
public:
    BalanceSearch(const Profile& profile, const PipelineOptions& options, int partitions)
        : profile_(profile),
          options_(options),
          partitions_(partitions),
          sizes_(micro_batch_sizes(options.batch, options.chunks)),
          large_(at_size(profile, sizes_.front())),
          small_(at_size(profile, sizes_.back())),
          bounds_(profile, options, partitions),
          is_gpipe_(options.schedule == "gpipe") {}

    /// What a layer costs a lane per micro-batch.
    std::vector<double> layer_costs() const {
        std::vector<double> costs;
        for (std::size_t l = 0; l < large_.forward.size(); ++l) {
            const bool recomputes =
                is_checkpointed(options_.checkpoint, MicroBatchId{0}, static_cast<int>(sizes_.size()));
            costs.push_back(large_.forward[l] + large_.backward[l] + (recomputes ? large_.recompute[l] : 0));
        }
        return costs;
    }

    /// The best by simulation of what the exact search proposes.
    FoundBalance optimal() {
        std::optional<FoundBalance> best;
        for (const Balance& candidate : candidates()) {
            FoundBalance each = simulated(candidate);
            if (!best || std::pair(!each.feasible, each.step_ns) < std::pair(!best->feasible, best->step_ns)) {
                best = std::move(each);
            }
            if (best->feasible && best->step_ns <= lower_bound()) {
                break;  // proven: nothing later can be better
            }
        }
        return best && best->feasible ? *best : least_memory();
    }

    FoundBalance simulated(const Balance& balance) const {
        PipelineOptions options = options_;
        options.balance = balance;
        const Simulation simulation = simulate(profile_, options, {.noise = false, .memory = true});
        FoundBalance found;
        found.balance = balance;
        found.step_ns = simulation.step_time.count();
        found.feasible = simulation.feasible;
        for (const SimulatedLane& lane : simulation.lanes) {
            found.peak_bytes.push_back(lane.peak_bytes);
        }
        return found;
    }

    /// No balance within the limit steps faster.
    std::int64_t lower_bound() {
        const std::vector<RankedBalance>& best = shortest();
        return is_gpipe_ && !best.empty() ? best.front().step_ns : work_bound();
    }

    /// The limit below which nothing was found, from the cut that needs least.
    FoundBalance least_memory() {
        std::vector<Balance> candidates;
        add_frugal(candidates);
        FoundBalance best = simulated(candidates.front());
        for (const Balance& each : candidates) {
            FoundBalance other = simulated(each);
            if (most_bytes(other) < most_bytes(best)) {
                best = std::move(other);
            }
        }
        if (options_.memory_limit) {
            best.infeasible_because =
                "memory_limit is " + std::to_string(*options_.memory_limit) + "; no balance of " +
                std::to_string(partitions_) + " partitions that keeps it was found; " +
                std::to_string(most_bytes(best)) +
                " bytes a lane would do; use more partitions, more micro-batches, checkpoint always, "
                "or a larger limit";
        }
        return best;
    }

    static Bytes most_bytes(const FoundBalance& found) {
        return *std::max_element(found.peak_bytes.begin(), found.peak_bytes.end());
    }

private:
    bool is_uneven() const { return sizes_.front() != sizes_.back(); }

    /// Balances worth simulating, the most promising first.
    std::vector<Balance> candidates() {
        std::vector<Balance> balances;
        const auto propose = [&](const std::vector<RankedBalance>& ranked) {
            for (const RankedBalance& each : ranked) {
                if (std::find(balances.begin(), balances.end(), each.balance) == balances.end()) {
                    balances.push_back(each.balance);
                }
            }
        };
        propose(shortest());
        if (is_uneven() || large_.forward.size() > kMostExactLayers) {  // refused there
            propose(optimal_partitions(with_limit(problem_at(large_), false), kCandidates));
            propose(optimal_partitions(with_limit(problem_at(small_), false), kCandidates));
        }
        if (options_.memory_limit && is_gpipe_) {
            propose(optimal_partitions(with_limit(problem_at(large_), true), kCandidates));
        }
        if (options_.memory_limit && !is_gpipe_) {
            add_frugal(balances);
        }
        return balances;
    }

    /// Shortest by closed form, every task as quick as in either size of micro-batch, skips left out, and memory at its
    /// least: no real step is shorter.
    const std::vector<RankedBalance>& shortest() {
        if (!shortest_) {
            PartitionProblem problem = problem_at(large_);
            const auto lower = [](auto& values, const auto& others) {
                for (std::size_t k = 0; k < values.size(); ++k) {
                    values[k] = std::min(values[k], others[k]);
                }
            };
            const PartitionProblem other = problem_at(small_);
            lower(problem.forward_ns, other.forward_ns);
            lower(problem.recompute_ns, other.recompute_ns);
            lower(problem.backward_ns, other.backward_ns);
            lower(problem.copy_forward_ns, other.copy_forward_ns);
            lower(problem.copy_backward_ns, other.copy_backward_ns);
            shortest_ = problem.forward_ns.size() <= kMostExactLayers
                            ? optimal_partitions(with_limit(problem, false), kCandidates)
                            : std::vector<RankedBalance>{};
        }
        return *shortest_;
    }

    PartitionProblem problem_at(const SizedProfile& sized) const {
        PartitionProblem problem;
        problem.partitions = partitions_;
        problem.micro_batches = static_cast<int>(sizes_.size());
        problem.checkpoint = options_.checkpoint;
        problem.forward_ns = sized.forward;
        problem.recompute_ns = sized.recompute;
        problem.backward_ns = sized.backward;
        const Link& link = options_.link;
        const double per_byte = link.bytes_per_second > 0 ? 1e9 / link.bytes_per_second : 0;
        for (std::size_t l = 0; l + 1 < sized.output.size(); ++l) {
            const std::int64_t copy = std::llround(link.latency_ns + static_cast<double>(sized.output[l]) * per_byte);
            problem.copy_forward_ns.push_back(copy);
            problem.copy_backward_ns.push_back(copy);
        }
        for (int j = 0; j + 1 < partitions_; ++j) {
            problem.free_boundary.push_back(device_of(options_, LaneId{j}) == device_of(options_, LaneId{j + 1}));
        }
        problem.speeds = options_.speeds;
        const double loss = interpolate(profile_.samples, profile_.loss_ns, static_cast<double>(options_.batch)).value;
        problem.loss_ns = std::llround(loss / speed_of(options_, LaneId{partitions_ - 1}));
        return problem;
    }

    PartitionProblem with_limit(PartitionProblem problem, bool whatever_waits) {
        if (options_.memory_limit && is_gpipe_) {
            problem.memory_limit = options_.memory_limit;
            problem.peak_bytes = [this, whatever_waits](PartitionId partition, LayerRange layers) {
                return whatever_waits ? bounds_.at_most(partition, layers) : bounds_.at_least(partition, layers);
            };
        }
        return problem;
    }

    /// Cuts that need little memory, by either bound.
    void add_frugal(std::vector<Balance>& candidates) {
        PartitionProblem problem = problem_at(large_);
        for (const bool whatever_waits : {true, false}) {
            problem.peak_bytes = [this, whatever_waits](PartitionId partition, LayerRange layers) {
                return whatever_waits ? bounds_.at_most(partition, layers) : bounds_.at_least(partition, layers);
            };
            Balance balance({1});
            smallest_memory_limit(problem, &balance);
            candidates.push_back(balance);
        }
    }

    /// Some lane does at least the smallest largest share of the work, whatever the schedule.
    std::int64_t work_bound() const {
        std::vector<double> costs;
        for (std::size_t l = 0; l < large_.forward.size(); ++l) {
            costs.push_back(std::min(large_.forward[l], small_.forward[l]) +
                            std::min(large_.backward[l], small_.backward[l]));
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
            fastest = std::max(fastest, speed_of(options_, LaneId{lane}));
        }
        // Two roundings a micro-batch, half a nanosecond each.
        return std::max<std::int64_t>(
            0, static_cast<std::int64_t>((largest / fastest - 1) * static_cast<double>(sizes_.size())));
    }

    const Profile& profile_;
    PipelineOptions options_;
    int partitions_;
    std::vector<std::int64_t> sizes_;
    SizedProfile large_;
    SizedProfile small_;
    MemoryBounds bounds_;
    bool is_gpipe_;
    std::optional<std::vector<RankedBalance>> shortest_;
};

void check_request(const Profile& profile, const PipelineOptions& options, int partitions) {
    check_profile(profile);
    if (!options.placement.empty()) {
        throw UsageError("placement is given; a balance is sought with partition j on lane j; leave the placement out");
    }
    const std::vector<double> any(profile.layers.size(), 0.0);
    PipelineOptions complete = options;
    complete.balance = minmax_partition(any, partitions);  // refuses partitions that layers do not suffice for
    // Refuses everything else that simulating would, before a search that assumes it.
    simulate(profile, complete, {.noise = false, .memory = false});
}
}  // namespace

std::string to_string(BalanceAlgorithm algorithm) {
    switch (algorithm) {
        case BalanceAlgorithm::optimal: return "optimal";
        case BalanceAlgorithm::minmax: return "minmax";
        case BalanceAlgorithm::block: return "block";
    }
    return "unknown";
}

BalanceAlgorithm parse_balance_algorithm(std::string_view name) {
    for (const BalanceAlgorithm algorithm :
         {BalanceAlgorithm::optimal, BalanceAlgorithm::minmax, BalanceAlgorithm::block}) {
        if (to_string(algorithm) == name) {
            return algorithm;
        }
    }
    throw UsageError("algorithm '" + std::string(name) +
                     "' is not known; it must be one of optimal, minmax, block; use optimal when unsure");
}

FoundBalance find_balance(const Profile& profile, const PipelineOptions& options, int partitions,
                          BalanceAlgorithm algorithm) {
    check_request(profile, options, partitions);
    BalanceSearch search(profile, options, partitions);
    FoundBalance found;
    switch (algorithm) {
        case BalanceAlgorithm::optimal: found = search.optimal(); break;
        case BalanceAlgorithm::minmax:
            found = search.simulated(minmax_partition(search.layer_costs(), partitions));
            break;
        case BalanceAlgorithm::block: {
            const BlockPartition block = block_partition(search.layer_costs(), partitions);
            found = search.simulated(block.balance);
            found.repaired = block.repaired;
            break;
        }
    }
    found.algorithm = algorithm;
    found.lower_bound_ns = std::min(search.lower_bound(), found.step_ns);
    found.optimal = found.feasible && found.step_ns == found.lower_bound_ns;
    if (!found.feasible && !found.infeasible_because) {
        found.infeasible_because = "memory_limit is " + std::to_string(*options.memory_limit) + "; the balance " +
                                   to_string(found.balance) + " needs " +
                                   std::to_string(BalanceSearch::most_bytes(found)) +
                                   " bytes on one lane; use the optimal algorithm, which keeps the limit where it can";
    }
    return found;
}
}  // namespace pipescope
