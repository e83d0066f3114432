#pragma once

#include "schedule/task_graph.h"
#include "schedule/timeline.h"
#include "simulator/memory_model.h"

#include <cstdint>
#include <span>

namespace pipescope {
// A schedule that never drains, such as PipeDream's, has no step of its own: one mini-batch's micro-batches follow the
// last one's. What it costs is the time between a micro-batch and the same one of the next mini-batch, once the
// pipeline is full. So several mini-batches are simulated in a row, and a window of one period is looked at.

/// How many mini-batches of m micro-batches to run on n partitions: enough to fill, settle, measure and drain.
int mini_batches_to_settle(int n, int m);

struct SteadyWindow {
    Nanoseconds start{0};
    Nanoseconds end{0};

    Nanoseconds period() const { return end - start; }
};

/// The last backwards on partition 0 of two mini-batches in a row, once the pipeline is full: the window is from the
/// end of the one to that of the other. Of a graph whose micro-batches are those of `mini_batches` mini-batches in a
/// row.
struct SteadyTasks {
    TaskIndex before;
    TaskIndex last;
};
SteadyTasks steady_tasks(const TaskGraph& graph, int mini_batches);

/// What of the timeline and the samples lies in the window: slices cut at its edges, times from its start,
/// micro-batches numbered within their mini-batch, which are steps 0, 1, ..
Timeline cut_to(const Timeline& timeline, const SteadyWindow& window, int m);
std::vector<MemorySample> cut_to(const std::vector<MemorySample>& samples, const SteadyWindow& window, int m);
}  // namespace pipescope
