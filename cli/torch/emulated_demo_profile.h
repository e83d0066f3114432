#pragma once

#include "profiler/profile/profile.h"

namespace pipescope {
/// A synthetic chain of uneven layers for the emulated half of the demo. On 8 well-balanced partitions, the forward of
/// one sample takes at least 10 ms each, so waits are exact to far below a percent.
Profile emulated_demo_profile();
}  // namespace pipescope
