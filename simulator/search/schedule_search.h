#pragma once

// Searches an order by costs alone, without a profile or a simulation. automatic_schedule.h calls it and simulates.

#include "schedule/task_graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace pipescope {
/// The pipeline that a schedule is searched for. Its micro-batches are of one size or two, the larger ones first.
struct ScheduleCosts {
    struct Partition {
        LaneId lane{0};
        std::int64_t forward = 0;          ///< ns of one micro-batch; of the last partition with its loss
        std::int64_t recompute = 0;        ///< ns, if the micro-batch is checkpointed
        std::int64_t backward = 0;         ///< ns; gradients of the inputs
        std::int64_t backward_weight = 0;  ///< ns; gradients of the weights
        std::int64_t copy = 0;             ///< ns to the next partition, and of its gradient back; 0 on the same lane
        Bytes input = 0;                   ///< that a checkpointed micro-batch holds from its forward to its recompute
        /// That a micro-batch holds from its forward, or from its recompute if checkpointed, to its backward_weight.
        Bytes saved = 0;
        /// ns that larger micro-batches, or other forwards, take beyond these times, all of them together. For
        /// step_bound() only.
        std::int64_t larger = 0;
        /// ns that the forward takes beyond `forward` if the micro-batch is not checkpointed.
        std::int64_t kept_more = 0;
    };
    std::vector<Partition> partitions;  ///< for the larger micro-batches
    std::vector<Partition> smaller;     ///< for the others, on the same lanes; empty: all are of one size
    int num_larger = 0;                 ///< if there are two sizes
    int micro_batches = 1;
    Checkpoint checkpoint = Checkpoint::never;
    RecomputeStart recompute_start = RecomputeStart::early;
    std::vector<Bytes> limits;  ///< by lane, for what micro-batches hold; empty: none
    /// With staggered updates: ns of each lane's update. The search then minimises the longest time from a lane's first
    /// task to the end of its update, since steps that are repeated at that distance never collide. Empty: the step.
    std::vector<std::int64_t> updates;

    int num_lanes() const;
    const Partition& at(int j, int micro_batch) const {
        const bool is_smaller = !smaller.empty() && micro_batch >= num_larger;
        return (is_smaller ? smaller : partitions)[static_cast<std::size_t>(j)];
    }
};

/// An order of each lane's tasks: F and I of micro-batches in ascending order, W (backward_weight) when it fits.
struct FoundSchedule {
    std::vector<LaneProgram> programs;  ///< by lane; empty if not even one micro-batch fits the limits
    std::int64_t step_ns = 0;           ///< from 0 to the end of the last task; with updates, the longest of a lane
    std::int64_t bound_ns = 0;          ///< step_bound() of the costs
    bool is_optimal = false;            ///< proved: by the bound, or by trying every order of equal micro-batches
    /// The best order with recomputes right before their backwards, if another order is quicker.
    std::vector<LaneProgram> plain{};
};

/// A step time, in ns, that no order of these tasks can beat. With updates, no period of staggered steps is shorter
/// than the work of the busiest lane and its update. Otherwise:
///
/// It is the largest of: for each lane, the time until its first micro-batch can arrive and its work; the same time,
/// the work that cannot wait for the end of its last backward, and the way back of that; for each micro-batch, its way
/// through all partitions; and under a limit of k micro-batches at a time, m / k times the way from a partition to the
/// end and back. Gradients of the weights can wait, but under that limit only those of k micro-batches.
std::int64_t step_bound(const ScheduleCosts& costs);

/// Searches the orders of forward, recompute, backward and backward_weight for the shortest step within the limits.
///
/// Idea: list scheduling in time order. A lane that is free takes a backward that is ready, otherwise a forward for
/// which it has memory, otherwise a delayed backward_weight that fits before the next task arrives. Rules that differ
/// in the number of micro-batches in flight and in their preferences are tried until one reaches the bound. Then swaps
/// on the critical path improve the best one. A recompute first stands right before its backward; then recomputes move
/// into pauses before, as far as the limits allow. Pipelines of a few tasks are searched completely by branch and
/// bound. Deterministic. Cost: about 20 passes over the tasks. Source: the greedy of Zero Bubble Pipeline Parallelism
/// (arXiv 2401.10241), section 3.1, for the rules; Giffler and Thompson, Algorithms for solving production-scheduling
/// problems, Oper. Res. 8 (1960), for the complete search.
FoundSchedule find_schedule(const ScheduleCosts& costs);

/// Two orders without a search: a lane takes a backward that is ready, or else a forward that the limits allow, or else
/// a backward_weight; and the same with backward_weight first. They need little memory besides the limited one.
std::vector<FoundSchedule> plain_schedules(const ScheduleCosts& costs);

/// If there are at most two thousand orders in which each lane's micro-batches ascend, and each lane has one partition:
/// calls `visit` for those that end, quickest first, until it returns false. Otherwise not at all. Ignores the limits,
/// and updates. Does not set is_optimal and bound_ns of the schedules.
void for_each_order(const ScheduleCosts& costs, const std::function<bool(const FoundSchedule&)>& visit);
}  // namespace pipescope
