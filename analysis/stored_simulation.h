#pragma once

#include "analysis/trace_warnings.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <optional>
#include <vector>

namespace pipescope {
/// Replaces the tasks and memory samples of `simulation`, which was made from a trace's profile and configuration, by
/// those stored in the trace. If the tasks differ, step time, bubbles and lanes become those of the first stored step,
/// without noise, and a warning is returned: the file is damaged, or another version of PipeScope simulated it. Peaks
/// come from the samples of each lane that has some. Cost: O(tasks log tasks).
std::optional<TraceWarning> take_stored_tasks(Simulation& simulation, const Timeline& stored,
                                              const std::vector<MemorySample>& memory);
}  // namespace pipescope
