#pragma once

#include "hardware/device_catalogue.h"

#include <string>

namespace pipescope {
/// Describes one core of this machine by a calibration of about half a second: the rate of a matrix product in float32
/// and in `dtype`, the bandwidth of a copy larger than the caches, the time of an operator on one element. Efficiencies
/// are 1, since these rates are achieved ones. A core has no tensor units, so tf32 has no rate.
DeviceType calibrated_host(const std::string& dtype = "float32");
}  // namespace pipescope
