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
/// The pipeline that ran, and how its costs were measured.
struct TraceFacts {
    PipelineOptions options;
    std::vector<std::int32_t> steps;  ///< measured, by time
    std::size_t messages = 0;         ///< that the link is made from; 0: it is free, or the configuration's
    std::optional<std::int64_t> micro_batch_samples;  ///< of another program; empty: unknown, and it counts as one
    bool unequal = false;        ///< of another program: micro-batches of a step differ in samples, and count as equal
    bool known_schedule = true;  ///< the lanes run in the order of options.schedule
    /// If no named schedule has the lanes' order: the recorded order, if it can be simulated. options.schedule is then
    /// the most similar named schedule, which also works for other numbers of micro-batches.
    std::optional<Schedule> recorded_order;
    std::vector<std::string> notes;  ///< sentences: what the trace does not say, and what is used instead
};
/// A profile measured from a recorded run.
struct TraceProfile : TraceFacts {
    CheckedProfile profile;
};

/// Measures a profile from the tasks of `steps`, which are whole and of one size (whole_steps()).
///
/// Costs: a task costs its time without the wait for its input. In a run of another program, it also costs the time
/// that its lane takes to begin it once the input is there and the previous task has ended. If no message is seen to
/// bring a task's input, its time may contain a wait. Such times count only if all tasks of their kind and partition
/// lack a message. The cost of a partition's forward is the mean over the micro-batches of medians over the steps;
/// backward, backward_weight and recompute are computed the same way.
///
/// Launches: if every host of a run on GPUs launches ahead of its device, costs are the devices' alone, and layers have
/// the hosts' launches, as means likewise. Hosts that wait launch late because of what they wait for, so what their
/// launches take is part of the costs.
///
/// Layers: a PipeScope run has a profile. Its layers keep their shares, and are scaled until each partition costs what
/// was measured. Other runs get one layer for each partition, with one micro-batch size: `samples`, or what the
/// messages show, or 1.
///
/// Link (other runs): made from the messages whose receiving lane waited for them. Without messages, from the time
/// between the end of a task and the start of the next partition's task. A pair of lanes whose messages take longer or
/// shorter than the others' has a link of its own. If messages on devices wait for others of their lane, as on one
/// stream, the protocol is LinkProtocol::in_turn.
///
/// Throws Error, worded to follow the file's name, if ranks of the pipeline are missing (why_no_costs()), and unless
/// some step has a forward and a backward of every micro-batch on every partition. Cost: O(tasks log tasks).
TraceProfile profile_of_trace(const RecordedRun& run, const Timeline& measured, const MeasuredSteps& steps,
                              std::optional<std::int64_t> samples = std::nullopt);

/// Gives a run of another program the profile and options measured from it, so that it can be simulated. Warnings
/// describe their origin. If nothing can be measured, why_not_simulated has the reason. No effect on other runs.
void take_measured_profile(RecordedRun& run, const Timeline& measured, const MeasuredSteps& steps);
}  // namespace pipescope
