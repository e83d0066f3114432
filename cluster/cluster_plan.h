#pragma once

#include "base/number_ranges.h"
#include "cluster/failures.h"
#include "cluster/layout.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Ranks candidates by step, by cost of the run, or by time to its end.
enum class ClusterGoal { step, cost, time };
std::string to_string(ClusterGoal goal);
/// Throws UsageError that lists the names.
ClusterGoal parse_cluster_goal(std::string_view name);

/// The cluster with the nodes of these types alone, in this order: "A100,H100", or all for an empty text. Throws
/// UsageError for a type that the cluster does not have, and for one that is named twice.
Cluster with_types(Cluster cluster, const std::string& names);

struct ClusterPlanRequest {
    Layout layout;  ///< batch, dtype, gradient bytes and bucket, sends and dispatch of all candidates
    std::vector<NumberRange> devices = {};  ///< numbers to try; empty: from 1 to all of each group
    double tokens = 0;                      ///< of the whole run; 0: a run of one step
    ClusterGoal goal = ClusterGoal::step;
    /// Those that run one partition a lane are tried so, others with several; auto for the eight best layouts only.
    std::vector<Schedule> schedules = {Schedule::one_f_one_b, Schedule::interleaved_1f1b, Schedule::automatic};
    double checkpoint_seconds = 60;
    double restart_seconds = 900;
    double repair_hours = 24;       ///< of a failed node
    std::size_t most_per_size = 3;  ///< candidates that are kept for each type and number of devices; of two types one
    bool exhaustive = false;        ///< simulates every layout, whatever its bound; the answer is the same
    int threads = 0;                ///< 0: one per core
    /// Called in the calling thread with the share that is done, 0..1; returns false to stop. May be empty.
    std::function<bool(double done)> progress;
};

struct ClusterCandidate {
    LayoutStep step;  ///< without timeline and memory over time
    int nodes = 0;
    int spare_nodes = 0;         ///< at most those that the cluster has; ranked by cost, fewer if that costs less
    int missing_nodes = 0;       ///< spares that the cluster does not have
    CheckpointPlan checkpoints;  ///< its effective share counts waits for repairs too
    double run_hours = 0;        ///< of all steps, with failures, checkpoints and waits for repairs
    double wait_hours = 0;       ///< of these, those in which all spare nodes are in repair: repair_waits_by_spares()
    double cost = 0;             ///< of the run's nodes and spares: price, or device-hours if the price is not known
    bool pareto = false;  ///< no other has as short a run, as low a cost and as few devices, and is better in one
    std::string reason;   ///< what its step consists of
};

struct ClusterPlan {
    std::vector<ClusterCandidate> candidates;  ///< that fit into memory, best first
    ClusterGoal goal = ClusterGoal::step;
    bool priced = true;          ///< cost is a price; otherwise device-hours
    std::size_t considered = 0;  ///< layouts whose lower bound was computed
    std::size_t simulated = 0;
    std::optional<std::string> infeasible_because;  ///< if there is none
    bool cancelled = false;
    std::string next_constraint;        ///< of the first candidate; empty if there is none, or cancelled
    std::vector<std::string> left_out;  ///< sentences about types that no layout uses
};

/// Tries every type of device, numbers of devices that are powers of two, 5/4, 3/2 or 7/4 of them or the limits of a
/// range, tensor-parallel ranks of one node, lanes, schedules, micro-batch sizes, interleaving, recompute, and ZeRO 0
/// to 3; sequence parallelism with tensor parallelism. Of layouts that differ in recompute and ZeRO only, the fastest
/// that fits counts: more of either is tried if less does not fit, or fits only with other cuts than the quickest.
/// With a gradient bucket, all ZeRO stages are tried. Two types are tried together for numbers of devices that the
/// quicker one does not have, all types for numbers that the two quickest do not have. One pipeline lies on them,
/// with as many lanes as possible on the quicker ones, first or last. Of the eight best layouts, those with even
/// cuts are also tried with the quickest ones; then schedule auto is tried for the eight best. Each candidate
/// that is listed was simulated, with its memory. A layout is not simulated if a bound shows that it is slower than
/// most_per_size others of its type and size: one of any cut for all layouts, then least_step() for those that are
/// still open. Throws UsageError for a request without any layout. Deterministic for any number of threads.
/// Threading: starts its own threads and ends them before it returns.
ClusterPlan plan_cluster(const LanguageModel& model, const Cluster& cluster, const ClusterPlanRequest& request);
/// Likewise for a profiled model: lanes, partitions a lane, replicas, micro-batch sizes of the profile's range,
/// recompute none or full; cuts and optimizer as simulate_layout() takes them from `options`, whose checkpoint mode
/// should be never.
ClusterPlan plan_cluster(const Profile& profile, const PipelineOptions& options, const Cluster& cluster,
                         const ClusterPlanRequest& request);
}  // namespace pipescope
