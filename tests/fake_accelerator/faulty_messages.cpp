// Plugins for device messages that cannot be used; FAULT says why.

#include "engine/processes/device_plugin.h"

#include <torch/version.h>

#define PIPESCOPE_ABI 1
#define PIPESCOPE_TORCH 2
#define PIPESCOPE_MISSING 3

namespace {
const pipescope::DevicePlugin faulty = {
    FAULT == PIPESCOPE_ABI ? pipescope::kDevicePluginAbi + 7 : pipescope::kDevicePluginAbi,
    FAULT == PIPESCOPE_TORCH ? "1.13.0" : TORCH_VERSION,
    "the faulty plugin",
    "fake",
    [] { return std::string(FAULT == PIPESCOPE_MISSING ? "the cable is not plugged in" : ""); },
    nullptr,
    nullptr};
}  // namespace

extern "C" const pipescope::DevicePlugin* pipescope_device_plugin() {
    return &faulty;
}
