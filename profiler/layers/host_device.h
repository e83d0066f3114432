#pragma once

#include "balance/device_catalogue.h"

namespace pipescope {
/// One core of this machine, by a calibration of about half a second: what a matrix product computes, what a copy
/// larger than the caches moves, what an operator of one element takes. Its efficiencies are 1, since these are
/// reached.
DeviceType calibrated_host();
}  // namespace pipescope
