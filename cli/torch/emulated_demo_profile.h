#pragma once

#include "profiler/profile/profile.h"

namespace pipescope {
/// A synthetic chain of uneven layers for the emulated half of the demo. With 8 well-balanced partitions, each forward
/// of a sample takes at least 10 ms, so waits are exact to far below a percent.
Profile emulated_demo_profile();
}  // namespace pipescope
