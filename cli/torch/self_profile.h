#pragma once

#include "balance/profile.h"
#include "engine/layer.h"
#include "simulator/simulation.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace pipescope {
/// The profile file of "emulated:FILE"; empty for other models.
std::optional<std::filesystem::path> emulated_profile(const std::string& model);

/// The file that a MODEL is read from: a profile, a .so or a .pt; empty for built-in models.
std::optional<std::filesystem::path> file_of_model(const std::string& model);

/// Profiles the model under the conditions of the pipeline: its micro-batch sizes, and as many busy lanes.
Profile profile_for_run(const ModelSpec& model, const PipelineOptions& pipeline, std::uint64_t seed,
                        std::function<void(double done)> progress);
}  // namespace pipescope
