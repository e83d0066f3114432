#pragma once

#include "profiler/profile/profile.h"
#include "simulator/clock/event_engine.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
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
// (CoreScheduler). The profile's times were measured with c = co_running_lanes busy on the profiled device, so a lane
// alone runs 1 / v(c) times as fast as they say, on whatever device. at_size() and TaskCosts have times alone, and k
// busy lanes run v(k) times as fast. S applies to the profiled kind of device, the host or an accelerator, and to all
// of its layers alike.

/// v(k) for k lanes busy on a device of this capacity: at most 1, and 1 alone. `on_host`: the device is the host, where
/// at most `capacity` lanes are busy.
double co_running_speed(const Profile& profile, int busy, int capacity, bool on_host);

/// 1 / v(c): how many times as fast as the profile says its layers run while no other lane does; at least 1. If more
/// lanes were profiled than the host has cores, they shared these evenly.
double speed_alone(const Profile& profile);

/// The profile with the times of a lane alone, for devices that no lanes share. Its speed_alone() is 1.
Profile with_times_alone(Profile profile);

/// loss_time() while no other lane runs.
double loss_time_alone(const Profile& profile, std::int64_t samples);

/// v(k) on the lane's device with k = 1, 2, .. busy lanes, up to the most that work there at once; at least one.
std::vector<double> speeds_when_busy(const Profile& profile, const PipelineOptions& options, LaneId lane);

/// The resources that tasks share under these options; empty if every task runs as if alone, so that TaskClock is
/// enough.
/// Preconditions: the profile was checked, and check_options() passes; the graph is that of the options.
std::optional<SharedResources> shared_resources(const Profile& profile, const PipelineOptions& options,
                                                const TaskGraph& graph);

/// Lanes on the host that wait for cores; empty if there are enough cores. The cores of several hosts are one pool.
struct CoresInTurn {
    int cores = 0;
    std::vector<bool> takes_turns;  ///< by lane
};
std::optional<CoresInTurn> cores_in_turn(const PipelineOptions& options);
}  // namespace pipescope
