#pragma once

#include <c10/core/Device.h>

#include <vector>

namespace pipescope {
/// The devices that lanes of this process can run on: the CPU, then those of torch's accelerator, where it has one.
std::vector<c10::Device> usable_devices();
}  // namespace pipescope
