#pragma once

#include "balance/profile.h"
#include "simulator/event_engine.h"
#include "simulator/pipeline_options.h"

#include <optional>
#include <vector>

namespace pipescope {
// How lanes slow each other down.
//
// Let S(k) be how many times as long a layer takes with k lanes busy as with one: the profile's co_running_slowdown
// where it was measured, else 1. Each of k busy lanes on a device of capacity C (1 for an accelerator, the cores for
// the host) then runs at
//
//     v(k) = 1 / S(k)                         for the k that were measured
//     v(k) = v(L) min(1, max(L, C) / k)       beyond the L that were: an accelerator is shared evenly
//
// On the host no more than C lanes are busy: a lane waits for a core and has it for a whole task, as in the engine
// (CoreTurns). The profile's times are those with c = co_running_lanes busy, so that a task goes v(k) / v(c) times as
// fast as they say: slower where more lanes are at work on an accelerator, and faster where lanes wait that were busy
// during profiling, as they are in a pipeline's bubble.
// S holds for the kind of device that was profiled, for all of its layers alike.

/// v(k) / v(c) for k lanes busy on a device of this capacity; `on_host` says whether the device is the host, where no
/// more lanes than the capacity are. A profile may have been taken with more, which then shared the cores evenly.
double co_running_speed(const Profile& profile, int busy, int capacity, bool on_host);

/// What the tasks share under these options, or nothing if all run as if they were alone: then TaskClock is enough.
/// Preconditions: check_profile() and check_options() pass; the graph is that of the options.
std::optional<SharedResources> shared_resources(const Profile& profile, const PipelineOptions& options,
                                                const TaskGraph& graph);

/// Lanes on the host that wait for cores; nothing where there are enough.
struct CoresInTurn {
    int cores = 0;
    std::vector<bool> takes_turns;  ///< by lane
};
std::optional<CoresInTurn> cores_in_turn(const PipelineOptions& options);

/// Speed of a lane, against the profile's times, while no other lane runs.
double speed_alone(const Profile& profile, const PipelineOptions& options, LaneId lane);
}  // namespace pipescope
