#pragma once

#include "engine/processes/processes.h"

#include <functional>
#include <optional>
#include <string>

namespace pipescope {
/// A variable's value; empty if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's place among those that `pipescope launch`, torchrun, srun or mpirun started. Empty if none of them
/// did, or if only one process was started. Throws UsageError for variables that contradict each other or lack the
/// rendezvous.
///
///     launch     PIPESCOPE_RANK, PIPESCOPE_SIZE, PIPESCOPE_RENDEZVOUS, PIPESCOPE_ATTEMPT, PIPESCOPE_LISTENING
///     torchrun   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_*
///     srun       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID
///     mpirun     OMPI_COMM_WORLD_*, or PMI_RANK and PMI_SIZE
///
/// MASTER_ADDR and MASTER_PORT replace the rendezvous that srun's and mpirun's variables imply. PIPESCOPE_PATIENCE and
/// PIPESCOPE_SILENCE, in seconds, replace the defaults of ProcessOptions.
std::optional<ProcessOptions> processes_from(const Environment& environment);
/// A variable of this process's environment; empty if it is not set or has no value.
std::optional<std::string> environment_variable(const std::string& name);

/// The first host of Slurm's list: "node[07-12,20],login" is node07.
std::string first_host(const std::string& slurm_list);
}  // namespace pipescope
