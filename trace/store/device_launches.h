#pragma once

#include "trace/store/opened_trace.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// A piece of device work, and the call on the host that launched it.
struct DeviceLaunch {
    RangeArrow::End work;
    RangeArrow::End call;
};

/// The launches of another program's trace, by work: calls and work have equal correlations. Programs number their
/// calls apart, so a number that calls of several processes have is that of the work's own process; if the file does
/// not name that, the work has no launch. Cost: O(ranges).
std::vector<DeviceLaunch> device_launches(const OpenedTrace& trace);

/// Numbers the threads of the tracks. A thread's ranges and its calls may be in two tracks.
std::vector<std::size_t> threads_of_tracks(const std::vector<RangeTrack>& tracks);
}  // namespace pipescope
