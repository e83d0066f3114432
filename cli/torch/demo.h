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
    bool force = false;  ///< replace the demo's files in a folder that exists
    std::string model = "transformer:layers=6,width=256";
    std::int64_t batch = 16;
    std::int64_t chunks = 8;
    std::int64_t steps = 24;                           ///< measured, behind the warm-up: bursts of noise average out
    std::function<void(const std::string& line)> say;  ///< what is going on
};

/// Does the whole job twice: a real model on two lanes of this CPU, then eight emulated partitions with 32
/// micro-batches. Writes profiles, traces, pictures and report.md; other files in the folder are left alone. Throws
/// Error before any work if the folder exists and `force` is false, unless it is the folder of a demo that was cut off.
/// Once the command is asked to stop (stop_signals.h), returns the parts that have measured steps by then; throws
/// Interrupted if there is none.
std::vector<DemoPart> run_demo(const DemoOptions& options);
}  // namespace pipescope
