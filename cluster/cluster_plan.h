#pragma once

#include "base/number_ranges.h"
#include "cluster/batch_ramp.h"
#include "cluster/failures.h"
#include "cluster/layout.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Ranks candidates by step, by cost of the run, or by its duration.
enum class ClusterGoal { step, cost, time };
std::string to_string(ClusterGoal goal);
/// Throws UsageError that lists the names.
ClusterGoal parse_cluster_goal(std::string_view name);

/// The cluster reduced to the nodes of these types, in this order: "A100,H100"; an empty text keeps all. Throws
/// UsageError for a type that is not in the cluster, or is named twice.
Cluster with_types(Cluster cluster, const std::string& names);

struct ClusterPlanRequest {
    Layout layout;  ///< batch, dtype, cuts, gradient bytes and bucket, sends and dispatch of all candidates
    std::vector<NumberRange> devices = {};  ///< numbers to try; empty: from 1 up to each group's
    double tokens = 0;                      ///< of the whole run; 0: as `steps` says
    double steps = 0;                       ///< of the whole run, if `tokens` is 0; 0: a run of one step
    double deadline_hours = 0;              ///< of the whole run; 0: none
    /// How the batch grows to that of the layout. Layouts that cannot run one of its batches are left out, and auto is
    /// not tried, since an order fixes the number of micro-batches.
    std::optional<BatchRamp> ramp = {};
    ClusterGoal goal = ClusterGoal::step;
    /// Schedules for one partition per lane are tried that way, others with several; auto only for the eight best
    /// layouts.
    std::vector<Schedule> schedules = {usual_schedule(1), usual_schedule(2), Schedule::automatic};
    double checkpoint_seconds = 60;
    double restart_seconds = 900;
    double repair_hours = 24;       ///< to repair a failed node
    std::size_t most_per_size = 3;  ///< candidates kept for each type and number of devices; for two types one
    bool exhaustive = false;        ///< simulates every layout, even if its bound rules it out; the answer is the same
    int threads = 0;                ///< 0: one per core
    /// Called in the calling thread with the share that is done, 0..1; returns false to stop. May be empty.
    std::function<bool(double done)> progress = {};
};

struct ClusterCandidate {
    LayoutStep step;  ///< without timeline and memory over time
    int nodes = 0;
    int spare_nodes = 0;         ///< at most those in the cluster; ranked by cost: fewer if that costs less
    int missing_nodes = 0;       ///< spares that the cluster lacks
    CheckpointPlan checkpoints;  ///< its effective share includes waits for repairs
    double run_hours = 0;        ///< of all steps, with failures, checkpoints and waits for repairs
    double wait_hours = 0;       ///< of these, hours with all spare nodes in repair: repair_waits_by_spares()
    double cost = 0;             ///< of the run's nodes and spares: price, or device-hours without a price
    std::vector<RunPart> ramp;   ///< the run by batch; empty without a ramp
    bool in_time = true;         ///< the run ends before the deadline
    bool pareto = false;         ///< no other is as good in duration, cost and devices, and better in one
    std::string reason;          ///< what its step consists of
};

struct ClusterPlan {
    std::vector<ClusterCandidate> candidates;  ///< those that fit into memory, best first
    ClusterGoal goal = ClusterGoal::step;
    bool priced = true;          ///< cost is a price; otherwise device-hours
    std::size_t considered = 0;  ///< layouts whose lower bound was computed
    std::size_t simulated = 0;
    std::optional<std::string> infeasible_because;  ///< set if there are no candidates
    bool cancelled = false;
    double deadline_hours = 0;                  ///< of the request; candidates that end later come last
    std::optional<std::size_t> fewest_in_time;  ///< the candidate with the fewest devices that ends before the deadline
    double save_seconds = 0;                    ///< for which a save stops the training
    std::string next_constraint;                ///< of the first candidate; empty without one, or if cancelled
    std::vector<std::string> left_out;          ///< sentences about types that no layout uses
};

/// Plans a model's layout on a cluster.
///
/// Tries: every type of device; numbers of devices that are powers of two, 5/4, 3/2 or 7/4 of them, or the limits of a
/// range; tensor-parallel ranks within one node, with sequence parallelism; lanes, schedules, micro-batch sizes,
/// interleaving, recompute, and ZeRO 0 to 3. Among layouts that differ only in recompute and ZeRO, the fastest that
/// fits counts: more of either is tried if less does not fit, or fits only with other cuts than the quickest. With a
/// gradient bucket, all ZeRO stages are tried.
///
/// Several types: two are tried together for numbers of devices that the quicker type does not reach, all types for
/// numbers that the two quickest do not reach. One pipeline runs on them, with as many lanes as possible on the quicker
/// ones, first or last.
///
/// Refinement: the eight best layouts are also tried with the quickest cuts if theirs are even, and then with schedule
/// auto.
///
/// Bounds: each listed candidate was simulated, with its memory. A layout is not simulated if a bound shows that it is
/// slower than most_per_size others of its type and size: first a bound for any cuts, then least_step() for the
/// remaining layouts.
///
/// Deterministic for any number of threads. Threading: starts threads and ends them before it returns. Throws
/// UsageError for a request without any layout.
ClusterPlan plan_cluster(const LanguageModel& model, const Cluster& cluster, const ClusterPlanRequest& request);
/// Plans a profiled model's layout. Tries lanes, partitions per lane, replicas, micro-batch sizes in the profile's
/// range, and recompute none or full. Cuts and optimizer come from `options` as in simulate_layout(); their checkpoint
/// mode should be never.
ClusterPlan plan_cluster(const CheckedProfile& profile, const PipelineOptions& options, const Cluster& cluster,
                         const ClusterPlanRequest& request);
}  // namespace pipescope
