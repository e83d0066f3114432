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
/// What to choose from.
struct PlanRequest {
    std::vector<int> partitions = {1, 2, 3, 4, 5, 6, 7, 8};  ///< on a lane each; with schedule interleaved, lanes
    std::vector<std::int64_t> chunks = {1, 2, 4, 8, 16, 32, 64};
    std::vector<Checkpoint> checkpoints = {Checkpoint::never, Checkpoint::except_last, Checkpoint::always};
    std::vector<std::string> schedules = {"gpipe"};
    /// Kinds of device to try, for which the profile's times are estimated (retimed()), with their links, unless the
    /// options name one, and their memory as limit, unless the options' is smaller. Empty: the profiled device.
    std::vector<DeviceType> device_types;
    /// Batch, link, memory limit, optimizer; devices, speeds and limits of each lane, if given, of the most lanes:
    /// fewer partitions use the first of them. Balance, chunks, checkpoint, schedule and placement are what is planned,
    /// and ignored.
    PipelineOptions options;
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
    double price_per_lane_hour = 1;        ///< 1: the cost is lane-hours
    std::map<std::string, double> prices;  ///< by device type's name; else the catalogue's, else the above
    int threads = 0;                       ///< 0: as many as there are cores
    /// Told how much is done, 0..1, in the calling thread; returns whether to go on. May be empty.
    std::function<bool(double done)> progress;
};

struct PlanCandidate {
    Simulation simulation;    ///< without timeline and memory over time
    std::string device_type;  ///< empty: the profiled device
    bool balance_is_optimal = false;
    std::int64_t lower_bound_ns = 0;  ///< no balance steps faster; 0 with schedule interleaved, where none is known
    bool pareto = false;  ///< feasible, and none is at least as good in samples/s, lanes, memory and cost, and better
    double cost = 0;      ///< per million samples, in the request's price; optimizer and host outside
};

struct Plan {
    std::vector<PlanCandidate> candidates;  ///< feasible ones first, quickest first; then by lanes and memory
    std::optional<std::size_t> best;        ///< the quickest feasible one; of equally quick ones that with fewest lanes
    std::optional<std::string> infeasible_because;  ///< if there is no best: the smallest limit found that would do
    bool cancelled = false;                         ///< progress said stop; candidates are those up to then
};

/// Tries every device type, schedule, number of partitions, micro-batches and checkpoint mode, each with its best
/// balance. Chunks beyond the batch would give the same micro-batches again and are tried once. Partitions beyond the
/// layers are left out, and what can_interleave() refuses with schedule interleaved. Where a proof of the best balance
/// would take long it is left out, and balance_is_optimal false. Throws UsageError, BalanceError or ProfileError for a
/// request that holds no candidate at all. Deterministic, however many threads. Threading: starts threads of its own
/// and ends them before it returns.
Plan plan(const Profile& profile, const PlanRequest& request);

/// What the lane that needs most needs, in bytes.
Bytes highest_peak(const Simulation& simulation);
/// By how many bytes a lane is above its limit, of the lane where that is most; negative where all keep theirs.
/// Precondition: the options have a limit.
Bytes largest_shortfall(const Simulation& simulation);
}  // namespace pipescope
