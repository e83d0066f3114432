#pragma once

#include "tests/analysis/sample_run.h"

#include <filesystem>
#include <string>

namespace pipescope {
struct LayoutStep;

/// A path below a folder of this process that is removed when it ends.
std::filesystem::path temporaryPath(const std::string& name);
/// Writes the trace of `simulate --cluster` of a small language model: two lanes, two replicas, four tensor-parallel
/// ranks, layers recomputed whole. Returns its step.
LayoutStep writeClusterTrace(const std::filesystem::path& path);
}  // namespace pipescope
