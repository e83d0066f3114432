#pragma once

#include "analysis/measured_steps.h"
#include "analysis/recorded_run.h"
#include "profiler/profile/profile.h"
#include "schedule/timeline.h"
#include "simulator/pipeline_options.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A profile measured from a recorded run, and the pipeline that ran.
struct TraceProfile {
    Profile profile;
    PipelineOptions options;
    std::vector<std::int32_t> steps;  ///< measured, by time
    std::size_t messages = 0;         ///< whose times the link is made of; 0: it is free, or that of the configuration
    std::optional<std::int64_t> micro_batch_samples;  ///< of another program; empty: unknown, and it counts as one
    bool unequal = false;        ///< of another program: micro-batches of a step differ in samples, and count as equal
    bool known_schedule = true;  ///< the lanes' orders are those of options.schedule
    /// If they are those of no named schedule: the recorded order, if it can be simulated. options.schedule is then the
    /// most similar named one, which can run other numbers of micro-batches too.
    std::optional<Schedule> recorded_order;
    std::vector<std::string> notes;  ///< sentences: what the trace does not say, and what is taken instead
};

/// Measures a profile from the tasks of `steps`, which are whole and of one size (whole_steps()).
///
/// A task costs its time without the wait for its input. In a run of another program, it also costs the time that its
/// lane takes to begin it once the input is there and the previous task has ended. Times that may contain a wait, since
/// no message is seen to bring the input, count only if the same is true of all tasks of their kind and partition. The
/// cost of a partition's forward is the mean over the micro-batches of medians over the steps; so are those of
/// backward, backward_weight and recompute.
///
/// A PipeScope run has a profile: its layers keep their shares, and are scaled until each partition costs what was
/// measured. Other runs have one layer for each partition, of one micro-batch size: `samples`, or as the messages show
/// it, or 1. Their link is made of the messages whose receiving lane waited for them, or, without messages, of the time
/// from the end of a task to the start of the next partition's.
///
/// Throws Error, worded to follow the file's name, if ranks of the pipeline are missing (why_no_costs()), and unless
/// some step has a forward and a backward of every micro-batch on every partition. Cost: O(tasks log tasks).
TraceProfile profile_of_trace(const RecordedRun& run, const Timeline& measured, const MeasuredSteps& steps,
                              std::optional<std::int64_t> samples = std::nullopt);

/// Gives a run of another program the profile and the options measured from it, so that it can be simulated. Warnings
/// describe their origin; if nothing can be measured, why_not_simulated has the reason. No effect on other runs.
void take_measured_profile(RecordedRun& run, const Timeline& measured, const MeasuredSteps& steps);
}  // namespace pipescope
