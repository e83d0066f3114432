#pragma once

#include "analysis/comparison.h"
#include "analysis/measured_steps.h"
#include "analysis/recorded_run.h"
#include "analysis/step_peaks.h"
#include "trace/open_trace.h"

#include <filesystem>

namespace pipescope {
/// The input of all figures of a run. load_run() has it in memory; the viewer makes it from its columns. Borrowed.
struct RunTasks {
    const RecordedRun& run;
    const RunCheck& check;       ///< of all tasks
    const MeasuredSteps& steps;  ///< that count, without those that leave_out_broken() leaves out
    const Timeline& timeline;    ///< at least the slices of these steps
    StepPeaks peaks = {};        ///< as Measured::peaks

    Measured measured() const { return {timeline, peaks, steps.numbers(), steps.wall_times(), update_of(run)}; }
};

/// A run in memory, as commands and Python read it.
struct LoadedRun {
    OpenedTrace trace;
    RecordedRun run;      ///< of another program: with the profile that take_measured_profile() measures
    RunCheck check;       ///< of timeline()
    MeasuredSteps steps;  ///< whole_steps() of timeline()

    /// True for a file that holds a simulation alone.
    bool is_simulated() const { return trace.measured.slices.empty() && !trace.simulated.slices.empty(); }
    /// The measured tasks; those of the simulated step if the file holds a simulation alone.
    const Timeline& timeline() const { return is_simulated() ? trace.simulated : trace.measured; }
    RunTasks tasks() const { return {run, check, steps, timeline(), peaks_of(trace.memory)}; }
};

/// Opens any file of open_trace() and finds what its figures are made of. Never throws for what the file lacks: see
/// RecordedRun::why_not_simulated and MeasuredSteps::why_none. Errors: those of open_trace().
LoadedRun load_run(const std::filesystem::path& path, const OpenOptions& what = {.tracks = false});
LoadedRun load_run(OpenedTrace trace);
}  // namespace pipescope
