#pragma once

#include "balance/profile.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// A trace like one of the engine: the schedule of `options`, with durations a few percent off the simulated ones.
struct SampleRun {
    int partitions = 2;
    int chunks = 4;
    int steps = 3;
    bool profile = true;  ///< keep the profile in the trace
    bool memory = true;
    std::int64_t forward_ns = 10'000'000;
};

Profile sampleProfile(const SampleRun& run);
PipelineOptions sampleOptions(const SampleRun& run);
/// Deterministic.
Timeline sampleTimeline(const SampleRun& run);
/// Adds a thread whose ring lost `dropped` ranges.
void writeSampleTrace(const std::filesystem::path& path, const SampleRun& run = {}, std::int64_t dropped = 0);

/// A path in a folder that is removed when the process ends.
std::filesystem::path temporaryPath(const std::string& name);
}  // namespace pipescope
