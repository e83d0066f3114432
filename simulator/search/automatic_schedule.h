#pragma once

// Finds a pipeline's order from its profile: the search of schedule_search.h, then simulation and memory limits.

#include "profiler/profile/profile.h"
#include "schedule/schedules.h"
#include "schedule/timeline.h"
#include "simulator/pipeline_options.h"
#include "simulator/simulation.h"

#include <vector>

namespace pipescope {
struct AutomaticSchedule {
    Schedule schedule;           ///< a table named "auto", or a named schedule that is quicker
    Nanoseconds lower_bound{0};  ///< least_step(); of any order if the schedule does not keep the memory limits
};

/// The lower bound alone, without a search: no order of the options' tasks that keeps their memory limits has a shorter
/// step (step_bound()). Ignores their schedule. Under a limit, lanes can put off gradients of weights only for as many
/// micro-batches as fit: each holds what the memory model (memory_model.h) says that its graph alone keeps.
/// Throws as simulate() does.
Nanoseconds least_step(const CheckedProfile& profile, const PipelineOptions& options);

/// Removes the memory limits from the options.
PipelineOptions without_limits(PipelineOptions options);

/// The named synchronous schedules that run with the options' placement and micro-batches, each partition on one lane.
/// Ignores their schedule.
std::vector<Schedule> schedules_for(const CheckedProfile& profile, const PipelineOptions& options);

/// Finds the order of tasks for the options' balance, placement, checkpoint mode, links and memory limits. Ignores
/// their schedule.
///
/// Idea: find_schedule() searches with the profile's costs. The simulator measures the result; if a lane exceeds its
/// limit, the search repeats with less memory. Named schedules that fit the placement take part, so the result is never
/// slower than one of them. Among equally fast ones, the one with the lowest peak wins. If none keeps the limits, the
/// result is the one that exceeds them least. Skips, lanes that share a device, and shared links count in the
/// simulation only. Deterministic. Cost: for 8 partitions and 32 micro-batches about 1 ms for each search, and 1 ms for
/// each simulation. Throws as simulate() does.
AutomaticSchedule automatic_schedule(const CheckedProfile& profile, const PipelineOptions& options);

/// Like simulate(), for options whose schedule may be auto: finds the order first, and says its lower bound. The
/// simulation's options have the schedule found.
Simulation find_and_simulate(const CheckedProfile& profile, const PipelineOptions& options,
                             const SimulationDetail& detail = {});

/// Sets lower_bound by least_step() of the simulation's options, without memory limits if it does not keep them. Keeps
/// an existing bound. A schedule that never drains, or that is bidirectional, has none. Precondition: memory was
/// simulated if the options have limits. Throws as simulate() does. Threading: any thread.
void add_lower_bound(const CheckedProfile& profile, Simulation& simulation);
}  // namespace pipescope
