#pragma once

#include "cli/demo_report.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pipescope {
struct DemoOptions {
    std::filesystem::path output = "demo";
    bool force = false;  ///< replace the demo's files in an existing folder
    std::string model = "transformer:layers=6,width=256";
    std::int64_t batch = 16;
    std::int64_t chunks = 8;
    std::int64_t steps = 24;                           ///< measured after the warm-up: bursts of noise average out
    std::function<void(const std::string& line)> say;  ///< reports progress
};

/// Runs the whole workflow twice: a real model on two lanes of this CPU, then eight emulated partitions with 32
/// micro-batches. Writes profiles, traces, pictures and report.md, and leaves other files in the folder unchanged.
/// Throws Error before any work if the folder exists and `force` is false, unless it belongs to an interrupted demo. If
/// asked to stop (stop_signals.h), returns the parts with measured steps so far, or throws Interrupted if there are
/// none.
std::vector<DemoPart> run_demo(const DemoOptions& options);
}  // namespace pipescope
