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

/// Position of a task in StepGraph.
using StepTaskIndex = std::size_t;
inline constexpr StepTaskIndex kNoTask = std::numeric_limits<StepTaskIndex>::max();

/// The tasks of one step of a timeline, and what each had to wait for. What depends on what is read off the keys, so it
/// is known of any trace, also of one whose options are not: as in schedule/task_graph.h. A skip's key tells where it
/// was stashed; where it is popped is read off the step, since that partition's lane sends the gradient back. In a step
/// without a backward phase a skip's copy therefore ends nowhere.
/// Cost: O(slices within the step). Threading: immutable once built.
class StepGraph {
public:
    StepGraph(const TimelineStore& store, std::int32_t step);

    std::int32_t step() const { return step_; }
    /// In a topological order, which is that of their starts too: a task stands behind all that ended before it began,
    /// also behind copies that took no time. A task that ran a second time is there twice; its key finds the first one.
    std::span<const StepTask> tasks() const { return tasks_; }
    const StepTask& task(StepTaskIndex index) const { return tasks_.at(index); }
    /// The step of the key is ignored.
    StepTaskIndex find(const TaskKey& key) const;
    StepTaskIndex indexOf(SliceRef slice) const;
    /// What the task's data comes from, as far as it ran.
    std::vector<StepTaskIndex> dependencies(StepTaskIndex index) const;
    std::vector<StepTaskIndex> dependents(StepTaskIndex index) const;
    /// The task before it on its lane, or for a copy the copy before it on its link; kNoTask for the first.
    StepTaskIndex previous(StepTaskIndex index) const { return previous_.at(index); }
    /// The partition in which the skip of this number ends; nothing if the step does not tell.
    std::optional<std::int32_t> poppingPartition(std::int32_t skip) const;
    /// The lane that a copy goes to; nothing for other tasks, and where the step does not tell.
    std::optional<LaneId> receiver(StepTaskIndex copy) const;
    /// The compute tasks and losses of a lane, by start.
    std::span<const StepTaskIndex> laneOrder(LaneId lane) const;
    std::size_t numLanes() const { return lanes_.size(); }
    /// First forward's start to last backward's end.
    TimeRange range() const { return range_; }

private:
    void order();
    void findPoppingPartitions();
    void findPrevious();
    void findRecomputeStart();
    /// What brings the gradient of the output of the key's partition.
    StepTaskIndex gradientFor(const TaskKey& key) const;
    std::optional<std::int32_t> producerPartition(StepTaskIndex skip) const;
    void link();
    StepTaskIndex firstOf(std::initializer_list<TaskKey> keys) const;
    StepTaskIndex lossOf(std::int32_t micro_batch) const;

    std::int32_t step_;
    TimeRange range_;
    std::int32_t lastPartition_ = -1;
    /// Read off the step too: no recompute began before its gradient was there (RecomputeStart::ordinary).
    bool recomputesWithGradient_ = false;
    std::vector<StepTask> tasks_;
    std::unordered_map<std::uint64_t, StepTaskIndex> byKey_;  // packed, step 0
    std::map<std::int32_t, LaneId> laneOf_;                   // by partition
    std::vector<StepTaskIndex> previous_;
    std::vector<std::vector<StepTaskIndex>> dependents_;
    std::vector<std::vector<StepTaskIndex>> lanes_;
    struct SkipEnds {
        std::int32_t skip = 0;
        std::int32_t from = 0;
        std::int32_t to = 0;
    };
    std::vector<SkipEnds> skips_;                       // those whose end is known, by number
    std::multimap<std::int32_t, std::size_t> stashed_;  // positions in skips_, by partition
    std::multimap<std::int32_t, std::size_t> popped_;
};

/// The chain of tasks that made the step as long as it was: from its last task back, each time to whatever ended last
/// of what the task waited for, data or its lane.
struct CriticalPath {
    std::vector<StepTaskIndex> tasks;  ///< from the step's start to its end
    std::int64_t compute = 0;          ///< ns in forward, recompute, backward and loss
    std::int64_t copies = 0;           ///< ns in copies, skips and sums over replicas
    std::int64_t waits = 0;            ///< ns between one's end and the next one's start

    std::int64_t length() const { return compute + copies + waits; }
};
CriticalPath criticalPath(const StepGraph& tasks);
}  // namespace pipescope
