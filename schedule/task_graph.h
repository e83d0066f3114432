#pragma once

#include "base/ids.h"
#include "schedule/checkpoint.h"
#include "schedule/task_key.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pipescope {
// Legend, here and in the schedules: m micro-batches, n partitions; task (i, j) is micro-batch i on partition j.

/// A tensor that jumps over partitions: stashed on `from`, popped on partitions of one lane. The tensor goes to that
/// lane once, before the first of them runs forward. Their gradients are added up there and go back once, after the
/// backward of that same partition, which is the last of them to run backward. A skip that several lanes pop has a
/// route to each of them, and one that its own lane pops too, a route that stays there.
struct SkipRoute {
    PartitionId from;
    std::vector<PartitionId> to;  ///< of one lane, ascending, not before `from`

    /// The partition that gets the skip from that one: the first of `to` behind it. None if there is no more.
    std::optional<PartitionId> behind(PartitionId partition) const;
    friend bool operator==(const SkipRoute&, const SkipRoute&) = default;
};

/// Parameters that a layer of partition `from` holds and layers of another lane use too. That lane has a copy of them,
/// which gets the values once a step, before its first use. The gradients that the copy collects go back once, after
/// the last backward of these layers, and are added to those of the parameters.
struct SharedRoute {
    PartitionId from;
    std::vector<PartitionId> users;  ///< of one lane, ascending, all behind `from`
    bool trains = true;              ///< false for frozen parameters, which get no gradients

    friend bool operator==(const SharedRoute&, const SharedRoute&) = default;
};

/// Scope of the loss. mini_batch: computed once on the gathered output; exact for any loss, and a barrier before the
/// backward phase. micro_batch: computed for each micro-batch, so one can go backward while others still go forward.
enum class LossScope { mini_batch, micro_batch };

/// First micro-batch of the backward phase in a fill-drain schedule. torchgpipe takes the last one, whose graph already
/// exists with except_last; the figure in the GPipe paper does too.
enum class BackwardOrder { last_first, first_first };

/// Start of a recompute. early: as soon as the lane is free, while the gradient is still on its way (torchgpipe,
/// section 3.2.3). ordinary: only when the gradient has arrived (plain checkpointing).
enum class RecomputeStart { early, ordinary };

// Names as on the command line and in traces: last-first, first-first; early, ordinary; mini_batch, micro_batch.
// Parsing throws UsageError for others.
std::string to_string(BackwardOrder order);
BackwardOrder parse_backward_order(std::string_view name);
std::string to_string(RecomputeStart start);
RecomputeStart parse_recompute_start(std::string_view name);
std::string to_string(LossScope scope);
LossScope parse_loss_scope(std::string_view name);

/// The input of a schedule. It contains no costs: the same graph runs on every clock.
struct PipelineShape {
    int num_partitions = 1;
    int num_micro_batches = 1;  ///< actual m, after min(chunks, batch)
    Checkpoint checkpoint = Checkpoint::except_last;
    std::vector<LaneId> placement = {};    ///< lane of each partition; empty: partition j on lane j
    std::vector<SkipRoute> skips = {};     ///< the index in this list is the skip index in a TaskKey
    std::vector<SharedRoute> shared = {};  ///< the index in this list is the skip index in keys of these tasks
    LossScope loss = LossScope::mini_batch;
    BackwardOrder backward_order = BackwardOrder::last_first;  ///< for gpipe only; other schedules are first_first
    RecomputeStart recompute_start = RecomputeStart::early;
    /// Devices that hold the same weights. With several, an all_reduce at the end of the lane sums each partition's
    /// gradients over them.
    int replicas = 1;
    /// Consecutive steps in one graph (consecutive_steps()); num_micro_batches is the number of all of them together.
    int steps = 1;
    /// Two copies of the pipeline on the same lanes, in opposite directions. The second half of the micro-batches
    /// enters at the last lane: it runs partition j on lane n - 1 - j, which holds a copy of that partition. An
    /// all_reduce sums the gradients of both copies.
    bool bidirectional = false;
    /// Tasks that the schedule pairs run as one (JointTasks). Without it, and in other schedules, each runs alone.
    bool joins_pairs = false;

    int micro_batches_per_step() const { return num_micro_batches / steps; }
    /// True if the micro-batch runs through the second copy of a bidirectional pipeline.
    bool is_reversed(MicroBatchId i) const {
        const int m = micro_batches_per_step();
        return bidirectional && i.value() % m >= m / 2;
    }
    /// The lane of the partition's only, or first, copy.
    LaneId lane_of(PartitionId partition) const { return pipescope::lane_of(placement, partition); }
    /// The lane that runs micro-batch i on partition j.
    LaneId lane_of(Cell at) const {
        return lane_of(is_reversed(at.i) ? PartitionId{num_partitions - 1 - at.j.value()} : at.j);
    }
    /// The lanes that hold the partition: one, or two in a bidirectional pipeline.
    std::vector<LaneId> lanes_of(PartitionId partition) const;
    int num_lanes() const;
    /// The lane a task is accounted to: its partition's lane, or the sending lane of a copy. The loss belongs to the
    /// last partition's lane. A key without a partition (an optimizer over all parameters) has no lane.
    std::optional<LaneId> lane_of(const TaskKey& key) const;
    /// Throws UsageError unless counts fit a TaskKey, the placement names a lane for each partition and uses each lane
    /// from 0 up, each route of skips or shared parameters runs forward, to one lane, and a bidirectional pipeline has
    /// two halves.
    void check() const;

private:
    void check_skips() const;
    void check_shared() const;
};

using TaskIndex = std::size_t;

struct Task {
    TaskKey key;      ///< step 0, since a graph is one step
    LaneId lane;      ///< compute: the lane that runs it; copy: the sending lane
    LaneId receiver;  ///< copy: the receiving lane; compute: same as lane
};

/// All copies from one lane to another in order. They share one serial link.
struct Channel {
    LaneId from;
    LaneId to;
    std::vector<TaskIndex> order;
};

/// The compute tasks of one lane in execution order.
using LaneProgram = std::vector<TaskKey>;

/// Consecutive tasks of a lane's program that run as one: none starts before all of them can, and what they make leaves
/// when the last one has ended. A forward and the whole backward of another micro-batch that overlap, or the halves of
/// a whole backward.
struct JointTasks {
    std::size_t first = 0;  ///< position in the program
    std::size_t count = 1;
};
using LaneJoints = std::vector<JointTasks>;

/// Lists of tasks, kept one after the other.
class TaskLists {
public:
    std::span<const TaskIndex> at(std::size_t list) const {
        return std::span(tasks_).subspan(first_.at(list), first_.at(list + 1) - first_[list]);
    }
    std::size_t size() const { return first_.size() - 1; }
    void reserve(std::size_t lists, std::size_t tasks) {
        first_.reserve(lists + 1);
        tasks_.reserve(tasks);
    }
    void add(std::span<const TaskIndex> tasks, TaskIndex offset = 0) {
        for (const TaskIndex task : tasks) {
            tasks_.push_back(task + offset);
        }
        first_.push_back(tasks_.size());
    }
    /// List k of the result holds the lists that hold k, ascending. Precondition: k is below size() for each.
    TaskLists inverted() const;

private:
    std::vector<TaskIndex> tasks_;
    std::vector<std::size_t> first_{0};
};

/// Finds tasks by key. Tasks of step 0 without a skip lie in tables by kind, partition and micro-batch.
class TaskFinder {
public:
    /// False if the key is there already.
    bool add(const PipelineShape& shape, const TaskKey& key, TaskIndex task);
    /// The step is ignored.
    std::optional<TaskIndex> find(const PipelineShape& shape, TaskKey key) const;

private:
    std::array<std::vector<std::uint32_t>, kNumTaskKinds> tables_;  // position + 1; 0: none
    std::unordered_map<std::uint64_t, TaskIndex> others_;           // by packed key
};

/// The tasks of one step, their dependencies, and the order of each lane and channel. The engine runs the graph on the
/// real clock, the simulator on a virtual one.
/// Invariants: tasks() is a topological order of dependencies and lane orders together, so one pass is enough. Each
/// task is in exactly one lane order or channel.
/// Threading: immutable once built; read it from any thread.
class TaskGraph {
public:
    /// Adds to the lanes' programs the copies, skips and data dependencies that follow from the shape:
    ///
    ///     forward(i,j) -> copy_forward(i,j) -> forward(i,j+1) ... -> loss
    ///     loss -> first task of the backward phase of every lane (recompute included)
    ///     backward(i,j+1) -> copy_backward(i,j) -> backward(i,j),   recompute(i,j) -> backward(i,j)
    ///     backward(i,j) -> backward_weight(i,j), if a program splits the backward
    ///
    /// and for each route of shared parameters from partition j to a lane with partition l:
    ///
    ///     first forward of j -> shared_forward -> first forward of l
    ///     last backward (or backward_weight) of the lane's users -> shared_backward -> shared_sum
    ///
    /// The programs do not name a shared_sum. It ends the lane of j, where it delays nothing but the lane's
    /// all_reduces.
    ///
    /// With LossScope::micro_batch each micro-batch has its own loss(i), and only backward(i,n-1) waits for it.
    /// Partitions on one lane need no copy. Throws Error if the programs wait for each other in a cycle.
    ///
    /// In a bidirectional pipeline the key of an all_reduce has the first micro-batch of its copy of the partition:
    /// none for the first copy. Each of the two waits for the backwards of both.
    ///
    /// `joints`, by lane: the first of such tasks waits for all that any of them needs from elsewhere, and copies wait
    /// for the last one.
    TaskGraph(PipelineShape shape, const std::vector<LaneProgram>& programs,
              const std::vector<LaneJoints>& joints = {});

    const PipelineShape& shape() const noexcept { return shape_; }
    std::span<const Task> tasks() const noexcept { return tasks_; }
    /// Tasks that must end before this task starts, excluding the previous task of its lane or channel.
    std::span<const TaskIndex> dependencies(TaskIndex task) const { return dependencies_.at(task); }
    std::span<const TaskIndex> dependents(TaskIndex task) const { return dependents_.at(task); }
    int num_lanes() const noexcept { return static_cast<int>(lane_orders_.size()); }
    std::span<const TaskIndex> lane_order(LaneId lane) const { return lane_orders_.at(lane.index()); }
    std::span<const Channel> channels() const noexcept { return channels_; }
    /// The tasks that run as one, list by list, each in the order of its lane.
    const TaskLists& joints() const noexcept { return joints_; }
    /// True if the gradients of the backward's weights are a task of their own.
    bool is_split(TaskIndex backward) const;
    /// The task with this key; the step is ignored.
    std::optional<TaskIndex> find(TaskKey key) const;

private:
    // Fill the members below during construction only.
    friend class TaskGraphBuilder;
    friend TaskGraph consecutive_steps(const TaskGraph& step, int steps);
    TaskGraph() = default;

    PipelineShape shape_;
    std::vector<Task> tasks_;
    TaskLists dependencies_;
    TaskLists dependents_;
    std::vector<std::vector<TaskIndex>> lane_orders_;
    std::vector<Channel> channels_;
    TaskLists joints_;
    TaskFinder by_key_;
};

/// So many steps in a row with staggered updates: each lane runs its tasks of a step, an optimizer task, and then those
/// of the next step. Micro-batch i of step s has number s m + i, in a key of step 0. Tasks without a micro-batch have
/// the step in their key instead. Throws UsageError if that many micro-batches do not fit a key.
TaskGraph consecutive_steps(const TaskGraph& step, int steps);
}  // namespace pipescope
