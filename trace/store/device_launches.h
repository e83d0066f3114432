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

/// The launches of another program's trace, by work: a call and its work have equal correlations. Each program numbers
/// its calls independently. If several processes use a number, the call is the one of the work's process; if the file
/// does not name that process, the work has no launch. Cost: O(ranges).
std::vector<DeviceLaunch> device_launches(const OpenedTrace& trace);

/// Numbers the threads of the tracks. A thread may have two tracks: one for ranges, one for calls.
std::vector<std::size_t> threads_of_tracks(const std::vector<RangeTrack>& tracks);
}  // namespace pipescope
