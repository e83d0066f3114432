#pragma once

#include "balance/device_catalogue.h"
#include "simulator/balance_search.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Which candidate is best: the one that trains most samples a second, or the one whose samples cost least.
enum class PlanGoal { speed, cost };
std::string to_string(PlanGoal goal);
/// Throws UsageError that lists the names.
PlanGoal parse_plan_goal(const std::string& name);

/// What to choose from.
struct PlanRequest {
    std::vector<int> partitions = {1, 2, 3, 4, 5, 6, 7, 8};  ///< on a lane each; with schedule interleaved, lanes
    std::vector<int> replicas = {1};  ///< of the pipeline; those that do not divide the batch are left out
    std::vector<std::int64_t> chunks = {1, 2, 4, 8, 16, 32, 64};
    std::vector<Checkpoint> checkpoints = {Checkpoint::never, Checkpoint::except_last, Checkpoint::always};
    /// Those that the engine runs.
    std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b};
    /// Kinds of device to try, for which the profile's times are estimated (retimed()), with their links, unless the
    /// options name one, and their memory as limit, unless the options' is smaller. Empty: the profiled device.
    std::vector<DeviceType> device_types;
    PlanGoal goal = PlanGoal::speed;
    /// Batch, link, memory limit, optimizer; devices, speeds and limits of each lane, if given, of the most lanes:
    /// fewer partitions use the first of them. Balance, chunks, checkpoint, schedule, replicas and placement are what
    /// is planned, and ignored.
    PipelineOptions options;
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
    double price_per_lane_hour = 1;        ///< 1: the cost is lane-hours
    std::map<std::string, double> prices;  ///< by device type's name; else the catalogue's, else the above
    /// Where the profile knows its noise, so many of the best candidates, and as many Pareto candidates behind them,
    /// are simulated with noise, to be shown (Simulation::step_mean). The ranking does not depend on it, except that 0
    /// is a plan without noise: it takes hundreds of simulations, and the candidates that may be best get them anyway.
    std::size_t most_with_noise = 10;
    int threads = 0;  ///< 0: as many as there are cores
    /// Told how much is done, 0..1, in the calling thread; returns whether to go on. May be empty.
    std::function<bool(double done)> progress;
};

/// Candidates whose samples per second or cost differ by less than this share are equally good in it. A prediction
/// cannot tell them apart.
inline constexpr double kPlanTie = 0.0005;

struct PlanCandidate {
    Simulation simulation;    ///< without timeline and memory over time; with noise as the request says
    std::string device_type;  ///< empty: the profiled device
    bool balance_is_optimal = false;
    std::int64_t lower_bound_ns = 0;  ///< no balance steps faster; 0 with schedule interleaved, where none is known
    bool pareto = false;  ///< feasible, and none is at least as good in samples/s, lanes, memory and cost, and better
    double cost = 0;      ///< per million samples, in the request's price, without noise; optimizer and host outside
};
/// The cost of the expected step.
double expected_cost(const PlanCandidate& candidate);
/// The cost of one candidate over that of another: with noise if both know it, otherwise without. 1 if the other has
/// none.
double relative_cost(const PlanCandidate& one, const PlanCandidate& other);

struct Plan {
    /// Feasible ones first, best first. Of equally good ones (kPlanTie), first by lanes, then by cost and memory. With
    /// noise, the first 10 to 200 by their expected steps, as many as it takes until none of the others can be best;
    /// the others by their steps without noise.
    std::vector<PlanCandidate> candidates;
    std::optional<std::size_t> best;  ///< the first feasible one
    PlanGoal goal = PlanGoal::speed;
    std::optional<std::string> infeasible_because;  ///< if there is no best: the smallest limit found that would do
    /// If there is no best: changes of the request, as options of the command, each of which was tried and gives one.
    std::vector<std::string> remedies;
    /// If the best is extrapolated: the profile's micro-batch sizes and those that the best needs, ascending.
    std::vector<std::int64_t> sizes_to_profile;
    bool cancelled = false;  ///< progress said stop; candidates are those up to then
};

/// Tries every device type, schedule, number of partitions, replicas, micro-batches and checkpoint mode, each with its
/// best balance. Chunks beyond the batch would give the same micro-batches again and are tried once; candidates that
/// come out the same (never and except_last with one micro-batch) are kept once, the one that the request names first.
/// Partitions beyond the layers are left out, and what can_interleave() refuses with schedule interleaved. Where a
/// proof of the best balance would take long it is left out, and balance_is_optimal false. Throws UsageError,
/// BalanceError or ProfileError for a request that holds no candidate at all. Deterministic, however many threads.
/// Threading: starts threads of its own and ends them before it returns.
Plan plan(const Profile& profile, const PlanRequest& request);

/// The options on lanes of that type: its link, unless they name one, and its memory as limit, unless theirs is
/// smaller.
PipelineOptions options_on(const DeviceType& type, PipelineOptions options);

/// Lanes of all replicas: what is rented.
std::size_t num_devices(const Simulation& simulation);
/// What the lane that needs most needs, in bytes.
Bytes highest_peak(const Simulation& simulation);
/// By how many bytes a lane is above its limit, of the lane where that is most; negative where all keep theirs.
/// Precondition: the options have a limit.
Bytes largest_shortfall(const Simulation& simulation);
}  // namespace pipescope
