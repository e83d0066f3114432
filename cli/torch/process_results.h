#pragma once

#include "cli/torch/training.h"
#include "engine/processes/process_clock.h"
#include "schedule/process_facts.h"
#include "trace/merge/clock_alignment.h"

#include <filesystem>
#include <vector>

namespace pipescope {
/// The facts about this process that its trace holds, before its clock was read.
ProcessFacts process_facts(const Processes& processes, const std::vector<LaneId>& lanes_here,
                           const ProcessClock& clock);

/// "out.sqlite" of rank 2 is "out.rank2.sqlite", and "out.restart1.rank2.sqlite" after a restart, so that the trace of
/// what failed remains.
std::filesystem::path trace_of_rank(const std::filesystem::path& trace, int rank, int attempt);

/// Collective: completes each process's result by the lanes and layers of the other processes of its replica, and
/// extends the steps over all of them. `clock`: of this process.
void share_lanes(TrainingResult& result, const std::vector<LaneId>& lanes_here, const RankClock& clock,
                 Processes& processes, int replicas);
}  // namespace pipescope
