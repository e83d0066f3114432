#pragma once

#include "analysis/recorded_run.h"
#include "analysis/trace_warnings.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <filesystem>
#include <optional>
#include <vector>

namespace pipescope {
/// The lanes' statistics in the simulated step without noise, which must be in the simulation's timeline, and its place
/// there. For a schedule that never drains, one period. Cost: O(slices log slices).
StepStatistics one_step_statistics(const Simulation& simulation);

/// Replaces the tasks and memory samples of `simulation`, which was made from a trace's profile and configuration, by
/// the tasks and samples stored in the trace. If the tasks differ, step time, bubbles and lanes come from the stored
/// step (or window of steps) without noise, and a warning is returned: the file is damaged, or another version of
/// PipeScope simulated it. If the samples differ, peaks come from them, for each lane that has some. Cost: O(tasks log
/// tasks).
std::optional<TraceWarning> take_stored_tasks(Simulation& simulation, const Timeline& stored,
                                              const std::vector<MemorySample>& memory);

/// Writes a simulation as a trace, self-contained like a recorded one: timeline, memory, profile and configuration.
/// `on_cluster`: the whole step, if the pipeline is part of one. Replaces an existing file. Throws TraceError.
void write_simulation(const std::filesystem::path& path, const Profile& profile, const Simulation& simulation,
                      const std::optional<StepOnCluster>& on_cluster = {});
}  // namespace pipescope
