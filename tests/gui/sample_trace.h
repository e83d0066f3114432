#pragma once

#include "tests/analysis/sample_run.h"

#include <filesystem>
#include <string>

namespace pipescope {
struct Layout;
struct LayoutStep;

/// A path below a folder of this process that is removed when it ends.
std::filesystem::path temporaryPath(const std::string& name);
/// A step of a small language model on a cluster of 32 devices.
LayoutStep clusterStep(const Layout& layout);
/// Writes the trace of `simulate --cluster` of that model: two lanes, two replicas, four tensor-parallel ranks, layers
/// recomputed whole. Returns its step.
LayoutStep writeClusterTrace(const std::filesystem::path& path);
}  // namespace pipescope
