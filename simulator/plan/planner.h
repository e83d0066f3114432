#pragma once

#include "hardware/device_catalogue.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Ranks candidates by samples per second, or by cost per sample.
enum class PlanGoal { speed, cost };
std::string to_string(PlanGoal goal);
/// Throws UsageError that lists the names.
PlanGoal parse_plan_goal(std::string_view name);

struct PlanRequest {
    std::vector<int> partitions = {1, 2, 3, 4, 5, 6, 7, 8};  ///< one lane each; interleaved: number of lanes
    std::vector<int> replicas = {1};  ///< of the pipeline; numbers that do not divide the batch are skipped
    std::vector<std::int64_t> chunks = {1, 2, 4, 8, 16, 32, 64};
    std::vector<Checkpoint> checkpoints = {Checkpoint::never, Checkpoint::except_last, Checkpoint::always};
    std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b};
    /// Device types to try. Times are estimated for them (retimed()). Their links apply unless `hardware` has one,
    /// and their memory is the limit unless that of `hardware` is smaller. Empty: the profiled device.
    std::vector<DeviceType> device_types;
    PlanGoal goal = PlanGoal::speed;
    std::int64_t batch = 1;
    std::string optimizer = PipelineOptions{}.optimizer;
    bool master_weights = false;
    Update update = Update::synchronous;
    BackwardOrder backward_order = BackwardOrder::last_first;
    RecomputeStart recompute_start = RecomputeStart::early;
    std::optional<double> pair_overlap;  ///< as in PipelineOptions
    int most_in_flight = 0;
    /// Lists by lane, if given, are for the largest number of lanes: fewer partitions use the first of them.
    Hardware hardware;
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
    double price_per_lane_hour = 1;        ///< 1: the cost is lane-hours
    std::map<std::string, double> prices;  ///< by device type's name; else the catalogue's, else price_per_lane_hour
    /// If the profile has noise, this many of the best candidates, and as many Pareto candidates of lower rank, get
    /// noise to be displayed (Simulation::noise). It does not affect the ranking, except that 0 plans without noise.
    /// Noise takes hundreds of simulations, and candidates that may be best get it anyway.
    std::size_t most_with_noise = 10;
    int threads = 0;  ///< 0: one per core
    /// Called in the calling thread every 20 ms with the share that is done, 0..1; returns false to stop. May be empty.
    std::function<bool(double done)> progress;
};

/// Gives the request the batch, optimizer, updates, order of tasks and hardware of these options.
void take_options(PlanRequest& request, const PipelineOptions& options);

/// Candidates whose samples per second or cost differ by less than this share count as equal in it. A prediction cannot
/// tell them apart.
inline constexpr double kPlanTie = 0.0005;

struct PlanCandidate {
    Simulation simulation;    ///< without timeline and memory over time; noise as the request says
    std::string device_type;  ///< empty: the profiled device
    bool balance_is_optimal = false;
    std::int64_t lower_bound_ns = 0;  ///< no balance is faster; 0 with schedule interleaved, which has no bound
    bool pareto = false;  ///< feasible, and no other is at least as good in samples/s, lanes, memory and cost, and
                          ///< better in one
    double cost = 0;      ///< per million samples, in the request's price, without noise; excludes optimizer and host
};
double expected_cost(const PlanCandidate& candidate);
/// Cost of one candidate over that of another, with noise if both have it. 1 if the other costs nothing.
double relative_cost(const PlanCandidate& one, const PlanCandidate& other);

struct Plan {
    /// Feasible ones first, best first. Ties (kPlanTie) go to fewer lanes, then lower cost and memory. With noise, the
    /// first 10 to 200 are ranked by their expected steps, until none of the others can be best; the others by their
    /// steps without noise.
    std::vector<PlanCandidate> candidates;
    std::optional<std::size_t> best;  ///< the first feasible one
    PlanGoal goal = PlanGoal::speed;
    std::optional<std::string> infeasible_because;  ///< if there is no best: the smallest limit found that would be
                                                    ///< enough
    /// If there is no best: changes to the request, as command options. Each was tried and yields a feasible candidate.
    std::vector<std::string> remedies;
    /// If the best is extrapolated: the profile's micro-batch sizes and those that the best needs, ascending.
    std::vector<std::int64_t> sizes_to_profile;
    bool cancelled = false;  ///< progress returned false; candidates are those found by then
};

/// Tries every device type, schedule, number of partitions, replicas, micro-batches and checkpoint mode, each with its
/// best balance. Chunks beyond the batch would repeat the same micro-batches and are tried once. If candidates have
/// equal outcomes (never and except_last with one micro-batch), keeps the one that the request names first. Skips more
/// partitions than layers, and shapes that the schedule cannot run (can_run()). Skips proofs of the best balance that
/// would take long; balance_is_optimal is then false. Throws UsageError, BalanceError or ProfileError for a request
/// without any candidate. Deterministic for any number of threads. Threading: starts its own threads and ends them
/// before it returns.
Plan plan(const CheckedProfile& profile, const PlanRequest& request);

/// Lanes of all replicas, which is what one rents.
std::size_t num_devices(const Simulation& simulation);
}  // namespace pipescope
