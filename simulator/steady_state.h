#pragma once

#include "schedule/task_graph.h"
#include "schedule/timeline.h"
#include "simulator/memory_model.h"

#include <cstdint>
#include <span>

namespace pipescope {
// A schedule that never drains, such as PipeDream's, has no step of its own: the micro-batches of one mini-batch
// directly follow the previous one's. Its cost is the time between a micro-batch and the same one of the next
// mini-batch, once the pipeline is full. So several mini-batches are simulated in a row, and a window of one period is
// measured.

/// Number of mini-batches of m micro-batches to run on n partitions: enough to fill, settle, measure and drain.
int mini_batches_to_settle(int n, int m);

struct SteadyWindow {
    Nanoseconds start{0};
    Nanoseconds end{0};

    Nanoseconds period() const { return end - start; }
};

/// The last backwards on partition 0 of two consecutive mini-batches, once the pipeline is full. The window runs from
/// the end of the first to the end of the second. Precondition: the graph holds `mini_batches` mini-batches in a row.
struct SteadyTasks {
    TaskIndex before;
    TaskIndex last;
};
SteadyTasks steady_tasks(const TaskGraph& graph, int mini_batches);

/// The part of the timeline and samples in the window. Slices are cut at its edges, and times count from its start.
/// Micro-batches are numbered within their mini-batch; mini-batches are steps 0, 1, ..
Timeline cut_to(const Timeline& timeline, const SteadyWindow& window, int m);
std::vector<MemorySample> cut_to(const std::vector<MemorySample>& samples, const SteadyWindow& window, int m);
}  // namespace pipescope
