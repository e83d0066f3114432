#pragma once

#include "cli/torch/training.h"
#include "engine/processes/process_clock.h"
#include "schedule/process_facts.h"
#include "trace/merge/clock_alignment.h"

#include <filesystem>
#include <vector>

namespace pipescope {
/// The facts about this process for its trace, before its clock is read.
ProcessFacts process_facts(const Processes& processes, const std::vector<LaneId>& lanes_here,
                           const ProcessClock& clock);

/// The trace file of a rank: "out.rank2.sqlite" for "out.sqlite" and rank 2, and "out.restart1.rank2.sqlite" after a
/// restart, so that the failed attempt's trace remains.
std::filesystem::path trace_of_rank(const std::filesystem::path& trace, int rank, int attempt);

/// Collective: adds the lanes and layers of the other processes of a replica to each process's result, and extends the
/// steps over all of them. `clock`: this process's clock.
void share_lanes(TrainingResult& result, const std::vector<LaneId>& lanes_here, const RankClock& clock,
                 Processes& processes, int replicas);
}  // namespace pipescope
