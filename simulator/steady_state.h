#pragma once

#include "schedule/task_graph.h"
#include "schedule/timeline.h"
#include "simulator/memory/memory_model.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
// A schedule that never drains, such as PipeDream's, has no step of its own: the micro-batches of one mini-batch
// directly follow the previous one's. Steps with staggered updates overlap likewise. The cost of either is the time
// between an event of one mini-batch and the same event of the next, once the pipeline is full. So several mini-batches
// are simulated in a row, and a window of one period is measured.

/// Number of mini-batches of m micro-batches to run on n partitions: enough to fill, settle, measure and drain.
int mini_batches_to_settle(int n, int m);

struct SteadyWindow {
    Nanoseconds start{0};
    Nanoseconds end{0};

    Nanoseconds period() const { return end - start; }
};

/// The window runs from the last end of `before` to the last end of `last`.
struct SteadyTasks {
    std::vector<TaskIndex> before;
    std::vector<TaskIndex> last;
};
/// The last backwards on partition 0 of two consecutive mini-batches, once the pipeline is full. Precondition: the
/// graph holds `mini_batches` mini-batches in a row.
SteadyTasks steady_tasks(const TaskGraph& graph, int mini_batches);
/// With staggered updates: the updates of the step before `step`, and those of `step`. Precondition: the graph is of
/// consecutive_steps().
SteadyTasks updates_around(const TaskGraph& graph, int step);
/// True if the period before `step` is that of `step`, to a millionth.
bool is_settled(const TaskGraph& graph, std::span<const std::int64_t> ends, int step);

/// The part of the timeline and samples in the window. Slices are cut at its edges, and times count from its start.
/// Micro-batches are numbered within their mini-batch; mini-batches are steps 0, 1, ..
Timeline cut_to(const Timeline& timeline, const SteadyWindow& window, int m);
std::vector<MemorySample> cut_to(const std::vector<MemorySample>& samples, const SteadyWindow& window, int m);

/// The tasks of `step` and of the steps before and after it, all whole, as steps 1, 0 and 2. Micro-batches are numbered
/// within their step.
Timeline steps_around(const Timeline& timeline, int step, int m);
/// The samples between the two instants, and what lanes hold at the first. Their tasks are named as by steps_around().
std::vector<MemorySample> samples_around(const std::vector<MemorySample>& samples, const SteadyWindow& window, int step,
                                         int m);
}  // namespace pipescope
