#pragma once

#include "balance/profile.h"

namespace pipescope {
/// A made-up chain of uneven layers for the emulated half of the demo: the forward of one sample takes at least 10 ms
/// on each of 8 well-balanced partitions, so that waiting is exact to well below a percent.
Profile emulated_demo_profile();
}  // namespace pipescope
