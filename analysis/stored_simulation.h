#pragma once

#include "analysis/trace_warnings.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <optional>
#include <vector>

namespace pipescope {
/// Statistics of all slices, as if they were of one step: the window of a schedule that never drains holds parts of
/// several steps. Cost: O(slices log slices).
StepStatistics one_step_statistics(const Timeline& timeline);
/// The simulated step without noise: where it lies in the simulation's timeline, which must be there, and what the
/// lanes did in it. Of a schedule that never drains, one period. Cost: as above.
StepStatistics one_step_statistics(const Simulation& simulation);

/// Puts the simulated tasks and memory samples that a trace holds in the place of those of `simulation`, which was made
/// from the trace's profile and configuration. If the tasks differ, step time, bubbles and lanes become those of the
/// stored step, or window of steps, without noise, and a warning is returned: the file is damaged, or another version
/// of PipeScope simulated it. Peaks become those of the samples, where a lane has some and they differ. Cost: O(tasks
/// log tasks).
std::optional<TraceWarning> take_stored_tasks(Simulation& simulation, const Timeline& stored,
                                              const std::vector<MemorySample>& memory);
}  // namespace pipescope
