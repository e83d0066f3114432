#pragma once

#include "balance/device_catalogue.h"

#include <string>

namespace pipescope {
/// One core of this machine, by a calibration of about half a second: what a matrix product computes, in float32 and in
/// `dtype`, what a copy larger than the caches moves, what an operator of one element takes. Its efficiencies are 1,
/// since these are reached. A core has no tensor units: tf32 gets no rate.
DeviceType calibrated_host(const std::string& dtype = "float32");
}  // namespace pipescope
