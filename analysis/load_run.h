#pragma once

#include "analysis/comparison.h"
#include "analysis/measured_steps.h"
#include "analysis/recorded_run.h"
#include "analysis/step_peaks.h"
#include "trace/open_trace.h"

#include <filesystem>

namespace pipescope {
/// The input for all figures of a run. load_run() holds it in memory; the viewer makes it from its columns. Borrowed.
struct RunTasks {
    const RecordedRun& run;
    const RunCheck& check;       ///< check of all tasks
    const MeasuredSteps& steps;  ///< the steps that count, without those that leave_out_broken() leaves out
    const Timeline& timeline;    ///< at least the slices of these steps
    StepPeaks peaks = {};        ///< as Measured::peaks

    Measured measured() const { return {timeline, peaks, steps.numbers(), steps.wall_times(), update_of(run)}; }
};

/// A run in memory, as commands and Python read it.
struct LoadedRun {
    OpenedTrace trace;
    RecordedRun run;      ///< for another program's run: with the profile from take_measured_profile()
    RunCheck check;       ///< of timeline()
    MeasuredSteps steps;  ///< whole_steps() of timeline()

    /// True if the file holds only a simulation.
    bool is_simulated() const { return trace.measured.slices.empty() && !trace.simulated.slices.empty(); }
    /// The measured tasks, or the simulated step's tasks if the file holds only a simulation.
    const Timeline& timeline() const { return is_simulated() ? trace.simulated : trace.measured; }
    RunTasks tasks() const { return {run, check, steps, timeline(), peaks_of(trace.memory)}; }
};

/// Opens any file that open_trace() reads, and prepares what its figures need. If the file lacks something, does not
/// throw: see RecordedRun::why_not_simulated and MeasuredSteps::why_none. Errors: as open_trace().
LoadedRun load_run(const std::filesystem::path& path, const OpenOptions& what = {.tracks = false});
LoadedRun load_run(OpenedTrace trace);
}  // namespace pipescope
