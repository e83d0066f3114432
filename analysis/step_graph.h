#pragma once

#include "analysis/time_range.h"
#include "schedule/task_graph.h"
#include "schedule/timeline.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
struct StepTask {
    TaskKey key;
    SliceRef slice;
    LaneId lane;
    std::int64_t start = 0;
    std::int64_t end = 0;

    std::int64_t duration() const { return end - start; }
};

/// Index of a task in StepGraph.
using StepTaskIndex = std::size_t;
inline constexpr StepTaskIndex kNoTask = std::numeric_limits<StepTaskIndex>::max();

/// The tasks of one step of a timeline with their dependencies, from the task graph. Without a graph, as in a foreign
/// file, dependencies are inferred from keys and times.
///
/// The window of a schedule that never drains holds tasks of several steps; a task waits only for tasks of its step. A
/// skip's key has its stashing partition. Its popping partition is found by the lane that sends the gradient back, so
/// it is unknown in a step without a backward phase.
///
/// Cost: O(tasks log tasks). Threading: immutable once built.
class StepGraph {
public:
    /// `tasks` in any order, on lanes below `lanes`. `range`: see range(). `graph`: the graph that ran:
    /// RecordedRun::graph, or pipeline_graph_of() for a simulation; null if unknown.
    /// `own_step`: with staggered updates, the number of the step that the graph is about; `tasks` then also holds the
    /// tasks of its neighbours, which overlap it. Empty: all tasks are about one step.
    StepGraph(std::vector<StepTask> tasks, std::size_t lanes, TimeRange range,
              std::shared_ptr<const TaskGraph> graph = nullptr, std::optional<std::int32_t> own_step = std::nullopt);

    /// In a topological order that is also the order of starts: a task follows all tasks that ended before it began,
    /// including copies that took no time. A repeated task appears twice; its key finds the first run.
    std::span<const StepTask> tasks() const { return tasks_; }
    const StepTask& task(StepTaskIndex index) const { return tasks_.at(index); }
    /// Ignores the key's step. If several steps have the task, finds the task of own_step, or else the first.
    StepTaskIndex find(const TaskKey& key) const;
    StepTaskIndex index_of(SliceRef slice) const;
    /// The recorded tasks that produce this task's data. A dependency that was not recorded, such as the loss of
    /// another program, is replaced by its dependencies. If these are very many: the first, and for each lane the last
    /// to end before this task.
    std::vector<StepTaskIndex> dependencies(StepTaskIndex index) const;
    /// dependencies() of a task that may not be recorded, such as the first task after the window.
    std::vector<StepTaskIndex> dependencies(const TaskKey& key) const;
    /// True for the window of a schedule that never drains: every lane goes on after its last task.
    bool never_drains() const { return steps_.size() > 1 && !own_step_; }
    /// False for a task of a neighbouring step that overlaps this one.
    bool is_own(const StepTask& task) const { return !own_step_ || task.key.step == *own_step_; }
    /// True with staggered updates: each lane's update is then a task of the step.
    bool has_updates() const { return own_step_.has_value(); }
    std::vector<StepTaskIndex> dependents(StepTaskIndex index) const;
    /// The previous task on its lane, or for a copy the previous copy on its link; kNoTask for the first.
    StepTaskIndex previous(StepTaskIndex index) const { return previous_.at(index); }
    /// The partition in which this skip ends; empty if the step does not show it.
    std::optional<std::int32_t> popping_partition(std::int32_t skip) const;
    /// The lane that receives a copy; empty for other tasks, and if the step does not show it.
    std::optional<LaneId> receiver(StepTaskIndex copy) const;
    /// The compute tasks, losses, sums over replicas and staggered updates of a lane, by start.
    std::span<const StepTaskIndex> lane_order(LaneId lane) const;
    std::size_t num_lanes() const { return lanes_.size(); }
    /// First forward's start to the end of the last backward or sum over replicas.
    TimeRange range() const { return range_; }

private:
    void order();
    void find_popping_partitions();
    void find_previous();
    void find_recompute_start();
    /// The task that delivers the gradient of the partition's output.
    StepTaskIndex gradient_for(const TaskKey& key) const;
    std::optional<std::int32_t> producer_partition(StepTaskIndex skip) const;
    void link();
    /// The dependencies of an unrecorded task that waits for very many others, such as the loss of a mini-batch, and on
    /// which many tasks wait. Kept once: a copy for each waiting task would take quadratic memory.
    struct Barrier {
        StepTaskIndex first = kNoTask;                    // the first dependency
        std::vector<std::vector<StepTaskIndex>> by_lane;  // without copies, by end; among equal ends the first is last
    };
    void find_barriers();
    Barrier barrier_of(TaskIndex task, std::int32_t step) const;
    /// The first dependency, and for each lane the last to end before `waiting`, or the last of all if none ends
    /// earlier. If `waiting` is kNoTask: the last of all.
    std::vector<StepTaskIndex> chosen_of(const Barrier& barrier, StepTaskIndex waiting) const;
    StepTaskIndex recorded_as(TaskIndex of_graph, std::int32_t step) const;
    /// `waiting`: the recorded task whose dependencies are wanted; kNoTask if it is not recorded.
    std::vector<StepTaskIndex> dependencies_by_graph(TaskIndex task, std::int32_t step, StepTaskIndex waiting) const;
    /// All recorded tasks that it waited for. At a task that waits for very many others, `pass` may add these itself,
    /// and then returns true.
    std::vector<StepTaskIndex> walk_back(
        TaskIndex task, std::int32_t step,
        const std::function<bool(TaskIndex barrier, std::vector<StepTaskIndex>& found)>& pass) const;
    std::vector<StepTaskIndex> dependencies_by_key(const TaskKey& key) const;
    /// The task in the key's step.
    StepTaskIndex find_in_step(const TaskKey& key) const;
    StepTaskIndex first_of(std::initializer_list<TaskKey> keys) const;
    StepTaskIndex loss_of(std::int32_t step, std::int32_t micro_batch) const;

    TimeRange range_;
    std::optional<std::int32_t> own_step_;
    std::shared_ptr<const TaskGraph> graph_;
    std::int32_t last_partition_ = -1;
    /// Also inferred from the step: no recompute started before its gradient arrived (RecomputeStart::ordinary).
    bool recomputes_with_gradient_ = false;
    std::vector<StepTask> tasks_;
    std::vector<StepTaskIndex> recorded_;  // by task of the graph, if all tasks are of one step; kNoTask: not recorded
    std::unordered_map<std::uint64_t, StepTaskIndex> by_key_;         // packed; tasks that are not in recorded_
    std::vector<std::int32_t> steps_;                                 // steps that appear in keys
    std::map<std::int32_t, LaneId> lane_of_;                          // by partition
    std::map<std::pair<TaskIndex, std::int32_t>, Barrier> barriers_;  // unrecorded; by task of the graph and step
    std::vector<StepTaskIndex> previous_;
    std::vector<std::vector<StepTaskIndex>> dependents_;
    std::vector<std::vector<StepTaskIndex>> lanes_;
    struct SkipEnds {
        std::int32_t skip = 0;
        std::int32_t from = 0;
        std::int32_t to = 0;
    };
    std::vector<SkipEnds> skips_;                       // skips with a known end, by number
    std::multimap<std::int32_t, std::size_t> stashed_;  // indices into skips_, by partition
    std::multimap<std::int32_t, std::size_t> popped_;
};

/// All tasks of a timeline as one step. A slice's index in row 0 is its place in the timeline.
StepGraph step_graph_of(const Timeline& step, TimeRange range, std::shared_ptr<const TaskGraph> graph = nullptr,
                        std::optional<std::int32_t> own_step = std::nullopt);

/// The chain of tasks that determined the step's length. From the last task, it goes back each time to whatever ended
/// last: a dependency or the previous task of the lane. With staggered updates, back to the start of the step's range.
struct CriticalPath {
    std::vector<StepTaskIndex> tasks;  ///< from the step's start to its end
    std::int64_t compute = 0;          ///< ns in forward, recompute, backward and loss
    std::int64_t copies = 0;           ///< ns in copies, skips and all-reduces
    std::int64_t waits = 0;            ///< ns between the end of a task and the start of the next

    std::int64_t length() const { return compute + copies + waits; }
};
CriticalPath critical_path(const StepGraph& tasks);
}  // namespace pipescope
