#pragma once

#include "analysis/recorded_run.h"
#include "base/machine_load.h"
#include "profiler/profile/profile.h"
#include "schedule/timeline.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
/// The tasks of a run of PipeScope's engine on lanes of the host. A borrowed view.
struct CalibrationRun {
    const PipelineOptions& options;
    const Timeline& measured;
    std::vector<std::int32_t> steps;  ///< to measure, without warm-up
    std::optional<MachineLoad> load = {};
};

/// The run of a trace. Throws Error, worded to follow the trace's name, unless PipeScope's engine recorded it and it
/// has a whole step and a profile. `run` and `trace` must outlive the result.
CalibrationRun calibration_run(const RecordedRun& run, const OpenedTrace& trace);

/// Why a run, whose profile is `of_run`, says nothing about `earlier`: model, layers or dtype differ. Worded to follow
/// the run's name. Empty if both are of the same model.
std::string why_not_of_one_model(const Profile& earlier, const Profile& of_run);

/// The earlier profile, with its layers' times scaled until partitions take as long as in the runs.
///
/// Idea: a run shows the time of each partition, beside the lanes that were busy with it. The earlier profile shows how
/// layers share that time. For each kind of task, a partition's factor is the measured work of all its tasks divided by
/// the predicted work. Each layer takes the geometric mean of its partitions' factors in all runs, weighted by their
/// steps, repeated until the runs agree as far as they can. Source: simultaneous multiplicative algebraic
/// reconstruction (Byrne, IEEE Trans. Image Processing 2, 1993).
///
/// Work is time times speed (contention.h), so a task that had the machine to itself counts as longer: the profile's
/// times stay valid with co_running_lanes busy. Uses means, because only means sum to the mean of a step. A task
/// includes the hand-off before it (start_delays()), such as the time in which its thread wakes up. So do loss and
/// optimizer.
///
/// Sizes: a run counts for the profile's size nearest to its micro-batches. Other sizes are interpolated between those
/// that ran. Forwards that keep a graph share a factor with recomputes, which keep one too; if only one kind of forward
/// ran, the other follows it. Bytes and sizes stay as in the earlier profile.
///
/// Throws Error, worded to follow a run's name, if a partition has no forward or no backward, or if a lane is not on
/// the host. Cost: O(tasks log tasks).
CheckedProfile calibrated_profile(const CheckedProfile& earlier, std::span<const CalibrationRun> runs);
}  // namespace pipescope
