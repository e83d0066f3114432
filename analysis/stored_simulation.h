#pragma once

#include "analysis/trace_warnings.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <optional>
#include <vector>

namespace pipescope {
/// Puts the simulated tasks and memory samples that a trace holds in the place of those of `simulation`, which was made
/// from the trace's profile and configuration. If the tasks differ, step time, bubbles and lanes become those of the
/// first stored step, without noise, and a warning is returned: the file is damaged, or another version of PipeScope
/// simulated it. Peaks are those of the samples, where a lane has some. Cost: O(tasks log tasks).
std::optional<TraceWarning> take_stored_tasks(Simulation& simulation, const Timeline& stored,
                                              const std::vector<MemorySample>& memory);
}  // namespace pipescope
