#include "engine/device/device_list.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace pipescope {
std::vector<c10::Device> usable_devices() {
    std::vector<c10::Device> devices = {c10::kCPU};
    const auto type = at::getAccelerator();
    if (type && c10::impl::hasDeviceGuardImpl(*type)) {
        for (int index = 0; index < c10::impl::getDeviceGuardImpl(*type)->deviceCount(); ++index) {
            devices.emplace_back(*type, static_cast<c10::DeviceIndex>(index));
        }
    }
    return devices;
}
}  // namespace pipescope
