#pragma once

#include "balance/profile.h"
#include "simulator/simulation.h"

#include <filesystem>

namespace pipescope {
/// Writes a simulation as a trace, self-contained like a recorded one: its timeline, memory, profile and configuration.
/// Throws TraceError; an existing file is replaced only with `force`.
void write_simulated_trace(const std::filesystem::path& path, bool force, const Profile& profile,
                           const Simulation& simulation);
}  // namespace pipescope
