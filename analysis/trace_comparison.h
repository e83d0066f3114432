#pragma once

#include "analysis/compared_bubbles.h"
#include "analysis/kernel_sums.h"
#include "analysis/load_run.h"
#include "analysis/run_verdict.h"
#include "base/machine_load.h"
#include "simulator/simulation.h"
#include "trace/store/trace_records.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A recorded run compared with its simulation, the basis of every report about it. What-if scenarios use compare().
struct RunComparison {
    std::optional<Comparison> comparison;  ///< has no replay
    std::size_t comparable = 0;            ///< MeasuredSteps::comparable
    std::vector<TraceWarning> warnings;    ///< about the trace, then the prediction, then omitted steps
    std::string why_none;                  ///< as RecordedRun::why_not_simulated; empty if there is a comparison
};
/// Compares the measured steps with the simulated step. If `simulation` is null, why_not_simulated has the reason, and
/// the only warnings are idle_time_warnings(). Never throws for the trace's contents.
RunComparison compare_run(const RunTasks& measured, const Simulation* simulation);
/// model_error() of the comparison. Empty without a comparison, and if a warning refuses the run's figures: its steps
/// may be longer or shorter than recorded.
std::optional<ModelError> judged_model_error(const RunComparison& compared);
/// Why a trace without measured tasks cannot be compared, worded like RecordedRun::why_not_simulated.
std::string nothing_measured(const RecordedRun& run);

/// How much of the time of a lane's device is explained (kDeviceTimeKey).
struct LaneDeviceTime {
    std::size_t lane = 0;
    Nanoseconds busy{0};
    Nanoseconds unattributed{0};

    double share() const {
        return busy.count() > 0 ? static_cast<double>(unattributed.count()) / static_cast<double>(busy.count()) : 0;
    }
};
/// From the entries of OpenedTrace::run; empty if they do not say.
std::vector<LaneDeviceTime> device_times(const std::map<std::string, std::string>& run);

/// The data that `compare` prints.
struct TraceComparison {
    Simulation simulation;
    Comparison comparison;
    std::vector<DropRecord> drops;
    std::vector<TraceWarning> warnings = {};
    std::optional<MachineLoad> profile_load = {};
    std::optional<MachineLoad> run_load = {};
    std::optional<std::int64_t> batch = {};       ///< samples of a step; empty if the trace does not say it
    bool profile_from_trace = false;              ///< true if the simulated profile was measured from this run
    std::size_t processes = 1;                    ///< number of processes that recorded the run
    std::optional<Nanoseconds> clock_bound = {};  ///< clock_bound() of a merged trace
    ComparedBubbles bubbles = {};
    KernelSums kernels = {};                   ///< empty without device work
    std::vector<LaneDeviceTime> devices = {};  ///< of another program's run on GPUs; otherwise empty
    RunVerdict verdict = {};

    /// True if measured bubble fractions are withheld.
    bool lossy() const { return refuse_bubbles(warnings); }
    /// True if measured step times and rates are withheld.
    bool lacks_steps() const { return !why_no_step_times(warnings).empty(); }
};
/// Simulates the configuration in a recorded trace, compares the two and replays the steps, without warm-up. Throws
/// TraceFormatError for a file that is not a trace, or lacks the measured steps, the profile or the configuration.
TraceComparison compare_trace(const std::filesystem::path& path);
/// Compares as above; `name` replaces the path in messages, for example for a temporary file.
TraceComparison compare_trace(const std::filesystem::path& path, const std::string& name);
}  // namespace pipescope
