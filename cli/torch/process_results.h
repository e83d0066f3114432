#pragma once

#include "cli/torch/training.h"

#include <filesystem>
#include <string>

namespace pipescope {
/// The run entry "process" of a trace: rank, size, host and process number.
std::string process_json(const Processes& processes);

/// "out.sqlite" of rank 2 is "out.rank2.sqlite", and "out.restart1.rank2.sqlite" after a restart, so that the trace of
/// what failed remains.
std::filesystem::path trace_of_rank(const std::filesystem::path& trace, int rank, int attempt);

/// Collective: completes each process's result by the lanes of the other processes of its replica. The bubble fraction
/// is that of all lanes in a step of rank 0.
void share_lanes(TrainingResult& result, const std::vector<LaneId>& lanes_here, Processes& processes, int replicas);
}  // namespace pipescope
