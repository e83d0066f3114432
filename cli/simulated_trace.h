#pragma once

#include "balance/profile.h"
#include "simulator/simulation.h"

#include <filesystem>

namespace pipescope {
/// Writes a simulation as a trace, self-contained like a recorded one: timeline, memory, profile and configuration.
/// Throws TraceError. Replaces an existing file only with `force`.
void write_simulated_trace(const std::filesystem::path& path, bool force, const Profile& profile,
                           const Simulation& simulation);
}  // namespace pipescope
