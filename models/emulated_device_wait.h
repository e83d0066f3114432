#pragma once

#include <c10/core/Device.h>

#include <string>

namespace pipescope {
/// Enqueues a kernel that waits that long in the calling thread's current stream of an accelerator; the host goes on.
/// One block of one thread: it takes next to nothing of the device, so lanes of one device wait side by side.
///
/// The kernel is in a library of its own, libpipescope_spin.so, which is built where the CUDA Toolkit is found and
/// loaded here at the first call: the rest of PipeScope needs no CUDA to build. It is looked for beside the program and
/// in ../lib; the environment variable PIPESCOPE_SPIN_LIBRARY names another one, for a device of any type.
/// Throws Error where there is none for this device, or where the launch fails.
void wait_on_device(c10::Device device, double nanoseconds);

/// Where the kernel is, or what keeps emulated layers off CUDA devices: for doctor.
struct DeviceWaitState {
    bool available = false;
    std::string detail;
};
DeviceWaitState device_wait_state();
}  // namespace pipescope
