#pragma once

#include <c10/core/Device.h>

#include <vector>

namespace pipescope {
/// The devices that this process's lanes can run on: the CPU, then those of torch's accelerator, if any.
std::vector<c10::Device> usable_devices();
}  // namespace pipescope
