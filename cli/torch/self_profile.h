#pragma once

#include "balance/profile.h"
#include "engine/layer.h"
#include "simulator/simulation.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace pipescope {
/// The profile file of "emulated:FILE"; nothing for another model.
std::optional<std::filesystem::path> emulated_profile(const std::string& model);

/// Measures the model as that pipeline will run it: at its micro-batch sizes, with as many lanes busy.
Profile profile_for_run(const ModelSpec& model, const PipelineOptions& pipeline, std::uint64_t seed,
                        std::function<void(double done)> progress);
}  // namespace pipescope
