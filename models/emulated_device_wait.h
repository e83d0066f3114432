#pragma once

#include <c10/core/Device.h>

#include <string>

namespace pipescope {
/// Enqueues a kernel that waits that long on the calling thread's current stream, and returns at once. The kernel is
/// one block of one thread and needs almost nothing of the device, so lanes of one device can wait side by side.
///
/// The kernel is in a separate library, libpipescope_spin.so. It is built if the CUDA Toolkit is present and loaded at
/// the first call, so the rest of PipeScope builds without CUDA. The library is searched beside the program and in
/// ../lib. The environment variable PIPESCOPE_SPIN_LIBRARY names another library, for any type of device.
///
/// Errors: throws Error if there is no kernel for this device or the launch fails.
void wait_on_device(c10::Device device, double nanoseconds);

/// The location of the kernel, or the reason why emulated layers cannot run on CUDA devices. For doctor.
struct DeviceWaitState {
    bool available = false;
    std::string detail;
};
DeviceWaitState device_wait_state();
}  // namespace pipescope
