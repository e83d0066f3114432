#pragma once

#include "analysis/comparison.h"
#include "analysis/measured_steps.h"
#include "analysis/recorded_run.h"
#include "schedule/machine_load.h"
#include "simulator/simulation.h"
#include "trace/trace_records.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A recorded run beside its simulation, as every report of it says.
struct RunComparison {
    std::optional<Comparison> comparison;  ///< without a replay
    std::size_t comparable = 0;            ///< MeasuredSteps::comparable
    std::vector<TraceWarning> warnings;    ///< about the trace, then about the prediction, then about steps left out
    std::string why_none;                  ///< as RecordedRun::why_not_simulated; empty if there is a comparison
};
/// Compares `steps`, as steps_to_compare() chose them, with the simulated step; null: why_not_simulated says why there
/// is none. Never throws for what the trace says. `measured`: the slices of these steps at least.
RunComparison compare_run(const RecordedRun& run, const Simulation* simulation, MeasuredSteps steps,
                          const Timeline& measured, const std::vector<MemorySample>& memory);
/// Why a trace without measured tasks cannot be compared, as RecordedRun::why_not_simulated.
std::string nothing_measured(TraceOrigin origin);

/// What `compare` prints.
struct TraceComparison {
    Simulation simulation;
    Comparison comparison;
    std::vector<DropRecord> drops;
    std::vector<TraceWarning> warnings = {};
    std::optional<MachineLoad> profile_load = {};
    std::optional<MachineLoad> run_load = {};

    /// Measured bubble fractions are refused.
    bool lossy() const { return refuse_bubbles(warnings); }
};
/// Simulates what a recorded trace says it ran, compares the two and replays the steps; warm-up steps are left out.
/// Throws TraceFormatError for a file that is no trace, or that lacks the measured steps, the profile or the
/// configuration.
TraceComparison compare_trace(const std::filesystem::path& path);
}  // namespace pipescope
