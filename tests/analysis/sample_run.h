#pragma once

#include "profiler/profile/profile.h"
#include "schedule/timeline.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <filesystem>

namespace pipescope {
/// A trace as the engine would leave it: the schedule of `options`, every task a few percent off its simulated
/// duration.
struct SampleRun {
    int partitions = 2;
    int lanes = 0;  ///< take partitions in turn, which run the schedule interleaved; 0: one for each partition
    int chunks = 4;
    int steps = 3;
    bool profile = true;  ///< keep the profile in the trace
    bool memory = true;
    std::int64_t forward_ns = 10'000'000;
    double cv = 0;  ///< noise of every layer
};

Profile sampleProfile(const SampleRun& run);
PipelineOptions sampleOptions(const SampleRun& run);
/// Deterministic.
Timeline sampleTimeline(const SampleRun& run);
/// With a thread whose ring lost `dropped` ranges.
void writeSampleTrace(const std::filesystem::path& path, const SampleRun& run = {}, std::int64_t dropped = 0);
/// The trace of a simulation of the same, as `simulate --trace` writes it.
void writeSimulatedTrace(const std::filesystem::path& path, const SampleRun& run = {});
}  // namespace pipescope
