#pragma once

#include "schedule/checkpoint.h"
#include "schedule/ids.h"
#include "schedule/task_key.h"

#include <cstddef>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace pipescope {
// Legend, here and in the schedules: m micro-batches, n partitions; task (i, j) is micro-batch i on partition j.

/// A tensor that jumps over partitions: stashed on `from`, popped on `to`.
struct SkipRoute {
    PartitionId from;
    PartitionId to;

    friend bool operator==(const SkipRoute&, const SkipRoute&) = default;
};

/// Where the loss is computed: once on the gathered output, exact for any loss, a barrier before the backward phase; or
/// for each micro-batch, which lets a micro-batch go backward while others still go forward.
enum class LossScope { mini_batch, micro_batch };

/// Which micro-batch's backward runs first in a fill-drain schedule. torchgpipe takes the last, whose graph is there
/// already with except_last; the GPipe paper's figure draws it too.
enum class BackwardOrder { last_first, first_first };

/// When a checkpointed micro-batch runs again: early, as soon as its lane is free, while its gradient is still coming
/// (torchgpipe, section 3.2.3), or ordinary, only when the gradient is there (plain checkpointing).
enum class RecomputeStart { early, ordinary };

/// What a schedule is built for. Costs are not part of it: the same graph runs on every clock.
struct PipelineShape {
    int num_partitions = 1;
    int num_micro_batches = 1;  ///< the real m, after min(chunks, batch)
    Checkpoint checkpoint = Checkpoint::except_last;
    std::vector<LaneId> placement = {};  ///< lane of each partition; empty: partition j on lane j
    std::vector<SkipRoute> skips = {};   ///< their position is the skip's index in the TaskKey
    LossScope loss = LossScope::mini_batch;
    BackwardOrder backward_order = BackwardOrder::last_first;  ///< of gpipe; the others go first-first
    RecomputeStart recompute_start = RecomputeStart::early;
    int replicas = 1;  ///< of the whole pipeline; with several, each partition's gradients are summed over them at its
                       ///< lane's end (all_reduce)

    LaneId lane_of(PartitionId partition) const {
        return placement.empty() ? LaneId{partition.value()} : placement.at(partition.index());
    }
    int num_lanes() const;
    /// The lane a task is accounted to: its partition's, and for a copy the sending one. The loss belongs to the last
    /// partition's lane. A key without a partition (an optimizer over everything) has none.
    std::optional<LaneId> lane_of(const TaskKey& key) const;
    /// Throws UsageError unless counts fit a TaskKey, the placement names every partition, uses each lane from 0 up,
    /// and skips run forward.
    void check() const;
};

using TaskIndex = std::size_t;

struct Task {
    TaskKey key;      ///< step 0: a graph is one step
    LaneId lane;      ///< compute: where it runs; copy: the sending lane
    LaneId receiver;  ///< copy: the receiving lane; compute: the same as lane
};

/// All copies from one lane to another, in their order: they share one serial link.
struct Channel {
    LaneId from;
    LaneId to;
    std::vector<TaskIndex> order;
};

/// One lane's compute tasks in the order it runs them.
using LaneProgram = std::vector<TaskKey>;

/// The tasks of one step, their dependencies, and the order of each lane and channel. The engine runs it on the real
/// clock, the simulator on a virtual one.
/// Invariants: tasks() is a topological order of dependencies and lane orders together, so one pass over it is enough;
/// every task stands in exactly one lane order or channel.
/// Threading: immutable once built; read it from any thread.
class TaskGraph {
public:
    /// Adds the copies, skips and data dependencies that follow from the shape to the lanes' programs:
    ///
    ///     forward(i,j) -> copy_forward(i,j) -> forward(i,j+1) ... -> loss
    ///     loss -> first task of the backward phase of every lane (recompute included)
    ///     backward(i,j+1) -> copy_backward(i,j) -> backward(i,j),   recompute(i,j) -> backward(i,j)
    ///     backward(i,j) -> backward_weight(i,j), where a program splits the backward
    ///
    /// With LossScope::micro_batch each micro-batch has its own loss(i), and only backward(i,n-1) waits for it.
    /// No copy between partitions of one lane. Throws Error if the programs wait for each other in a circle.
    TaskGraph(PipelineShape shape, const std::vector<LaneProgram>& programs);

    const PipelineShape& shape() const noexcept { return shape_; }
    std::span<const Task> tasks() const noexcept { return tasks_; }
    /// What must end before the task may start, its lane's or channel's previous task apart.
    std::span<const TaskIndex> dependencies(TaskIndex task) const { return dependencies_.at(task); }
    std::span<const TaskIndex> dependents(TaskIndex task) const { return dependents_.at(task); }
    int num_lanes() const noexcept { return static_cast<int>(lane_orders_.size()); }
    std::span<const TaskIndex> lane_order(LaneId lane) const { return lane_orders_.at(lane.index()); }
    std::span<const Channel> channels() const noexcept { return channels_; }
    /// The task with this key; the step is ignored.
    std::optional<TaskIndex> find(TaskKey key) const;

private:
    // Fills the members below and is gone when the constructor ends.
    friend class TaskGraphBuilder;

    PipelineShape shape_;
    std::vector<Task> tasks_;
    std::vector<std::vector<TaskIndex>> dependencies_;
    std::vector<std::vector<TaskIndex>> dependents_;
    std::vector<std::vector<TaskIndex>> lane_orders_;
    std::vector<Channel> channels_;
    std::unordered_map<std::uint64_t, TaskIndex> by_key_;  // packed key with step 0
};
}  // namespace pipescope
