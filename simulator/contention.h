#pragma once

#include "balance/profile.h"
#include "simulator/event_engine.h"
#include "simulator/pipeline_options.h"

#include <optional>
#include <vector>

namespace pipescope {
// Models how lanes slow each other down.
//
// Let S(k) be how many times as long a layer takes with k lanes busy as with one: the profile's co_running_slowdown
// where it was measured, else 1. Each of k busy lanes on a device of capacity C (1 for an accelerator, the cores for
// the host) then runs at
//
//     v(k) = 1 / S(k)                         for the k that were measured
//     v(k) = v(L) min(1, max(L, C) / k)       beyond the L that were: an accelerator is shared evenly
//
// On the host at most C lanes are busy: a lane waits for a core and keeps it for a whole task, as in the engine
// (CoreScheduler). The profile's times were measured with c = co_running_lanes busy, so a task runs v(k) / v(c) times
// as fast as they say. It is slower if more lanes work on an accelerator. It is faster if lanes wait that were busy
// during profiling, as in a pipeline's bubble. S applies to the profiled kind of device and to all of its layers alike.

/// v(k) / v(c) for k lanes busy on a device of this capacity. `on_host`: the device is the host, where at most
/// `capacity` lanes are busy. If more lanes than that were profiled, they shared the cores evenly.
double co_running_speed(const Profile& profile, int busy, int capacity, bool on_host);

/// v(k) / v(c) on the lane's device with k = 1, 2, .. busy lanes, up to the most that work there at once; at least one.
std::vector<double> speeds_when_busy(const Profile& profile, const PipelineOptions& options, LaneId lane);

/// The resources that tasks share under these options; empty if every task runs as if alone, so that TaskClock is
/// enough.
/// Preconditions: check_profile() and check_options() pass; the graph is that of the options.
std::optional<SharedResources> shared_resources(const Profile& profile, const PipelineOptions& options,
                                                const TaskGraph& graph);

/// Lanes on the host that wait for cores; empty if there are enough cores. The cores of several hosts are one pool.
struct CoresInTurn {
    int cores = 0;
    std::vector<bool> takes_turns;  ///< by lane
};
std::optional<CoresInTurn> cores_in_turn(const PipelineOptions& options);

/// Speed of a lane relative to the profile's times while no other lane runs.
double speed_alone(const Profile& profile, const PipelineOptions& options, LaneId lane);
}  // namespace pipescope
