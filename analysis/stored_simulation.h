#pragma once

#include "analysis/recorded_run.h"
#include "analysis/trace_warnings.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <filesystem>
#include <optional>
#include <vector>

namespace pipescope {
/// The simulated step without noise: where it lies in the simulation's timeline, which must be there, and what the
/// lanes did in it. For a schedule that never drains, one period. Cost: O(slices log slices).
StepStatistics one_step_statistics(const Simulation& simulation);

/// Replaces the tasks and memory samples of `simulation`, which was made from a trace's profile and configuration, by
/// those stored in the trace. If the tasks differ, step time, bubbles and lanes become those of the stored step, or
/// window of steps, without noise, and a warning is returned: the file is damaged, or another version of PipeScope
/// simulated it. Peaks come from the samples of each lane that has some, if they differ. Cost: O(tasks log tasks).
std::optional<TraceWarning> take_stored_tasks(Simulation& simulation, const Timeline& stored,
                                              const std::vector<MemorySample>& memory);

/// Writes a simulation as a trace, self-contained like a recorded one: timeline, memory, profile and configuration.
/// `on_cluster`: the step that it is a part of, if any. Replaces an existing file. Throws TraceError.
void write_simulation(const std::filesystem::path& path, const Profile& profile, const Simulation& simulation,
                      const std::optional<StepOnCluster>& on_cluster = {});
}  // namespace pipescope
