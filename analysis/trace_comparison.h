#pragma once

#include "analysis/comparison.h"
#include "schedule/machine_load.h"
#include "simulator/simulation.h"
#include "trace/trace_records.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A trace's measured steps against their simulation, with what the recorder lost.
struct TraceComparison {
    Simulation simulation;
    Comparison comparison;
    std::vector<DropRecord> drops;
    std::vector<std::string> warnings = {};  ///< trace_warnings() of the trace

    /// The recording was cut off in the only step it has.
    bool cut_off_in_step = false;
    std::optional<MachineLoad> profile_load = {};
    std::optional<MachineLoad> run_load = {};

    /// Ranges are missing: measured bubble fractions would be wrong and are not shown.
    bool lossy() const;
};

/// Simulates what a recorded trace says it ran and compares the two; warm-up steps are left out. Throws
/// TraceFormatError for a file that is no trace, or that lacks the measured steps, the profile or the configuration.
TraceComparison compare_trace(const std::filesystem::path& path);
}  // namespace pipescope
