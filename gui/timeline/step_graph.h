#pragma once

#include "gui/timeline/timeline_store.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
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

using StepTaskIndex = std::size_t;
inline constexpr StepTaskIndex kNoTask = std::numeric_limits<StepTaskIndex>::max();

/// The tasks of one step of a timeline and their dependencies. Dependencies follow from the keys as in
/// schedule/task_graph.h, so they are known for any trace, even without its options. A skip's key gives only the
/// stashing partition. The popping partition is found from the step: its lane sends the gradient back. A step without a
/// backward phase therefore has skips without an end.
/// Cost: O(slices within the step). Threading: immutable once built.
class StepGraph {
public:
    StepGraph(const TimelineStore& store, std::int32_t step);

    std::int32_t step() const { return step_; }
    /// Tasks in topological order, which is also the order of their starts: after all tasks that ended before,
    /// including copies of zero duration. A task that ran twice occurs twice; its key finds the first one.
    std::span<const StepTask> tasks() const { return tasks_; }
    const StepTask& task(StepTaskIndex index) const { return tasks_.at(index); }
    /// Finds a task by its key, ignoring the step.
    StepTaskIndex find(const TaskKey& key) const;
    StepTaskIndex indexOf(SliceRef slice) const;
    /// Tasks that deliver the task's input, as far as they ran.
    std::vector<StepTaskIndex> dependencies(StepTaskIndex index) const;
    std::vector<StepTaskIndex> dependents(StepTaskIndex index) const;
    /// The preceding task on its lane, or for a copy on its link; kNoTask for the first one.
    StepTaskIndex previous(StepTaskIndex index) const { return previous_.at(index); }
    /// The partition that pops this skip. Empty if the step does not show it.
    std::optional<std::int32_t> poppingPartition(std::int32_t skip) const;
    /// The lane that receives a copy. Empty for other tasks, or if the step does not show it.
    std::optional<LaneId> receiver(StepTaskIndex copy) const;
    /// Compute tasks and losses of a lane, by start.
    std::span<const StepTaskIndex> laneOrder(LaneId lane) const;
    std::size_t numLanes() const { return lanes_.size(); }
    /// From the first forward's start to the last backward's end.
    TimeRange range() const { return range_; }

private:
    void order();
    void findPoppingPartitions();
    void findPrevious();
    void findRecomputeStart();
    /// The task that delivers the gradient of the output of the key's partition.
    StepTaskIndex gradientFor(const TaskKey& key) const;
    std::optional<std::int32_t> producerPartition(StepTaskIndex skip) const;
    void link();
    StepTaskIndex firstOf(std::initializer_list<TaskKey> keys) const;
    StepTaskIndex lossOf(std::int32_t micro_batch) const;

    std::int32_t step_;
    TimeRange range_;
    std::int32_t lastPartition_ = -1;
    /// Found from the step: true if no recompute started before its gradient arrived (RecomputeStart::ordinary).
    bool recomputesWithGradient_ = false;
    std::vector<StepTask> tasks_;
    std::unordered_map<std::uint64_t, StepTaskIndex> byKey_;  // by packed key with step 0
    std::map<std::int32_t, LaneId> laneOf_;                   // by partition
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

/// The chain of tasks that determined the step's length. Goes back from the last task, each time to whatever ended last
/// among the task's dependencies and its lane's previous task.
struct CriticalPath {
    std::vector<StepTaskIndex> tasks;  ///< in order of time
    std::int64_t compute = 0;          ///< ns of forward, recompute, backward and loss
    std::int64_t copies = 0;           ///< ns of copies, skips and all-reduces
    std::int64_t waits = 0;            ///< ns between the end of a task and the start of the next

    std::int64_t length() const { return compute + copies + waits; }
};
CriticalPath criticalPath(const StepGraph& tasks);
}  // namespace pipescope
