#include "profiler/recorder/device_capture.h"

// Built instead of cupti_capture.cpp if CUPTI's headers were not found.

namespace pipescope {
namespace {
constexpr const char* kReason =
    "this PipeScope was built without CUPTI's headers; run scripts/setup and build again to record CUDA devices";
}

DeviceCapture::Outcome DeviceCapture::start(const DeviceCaptureOptions&) {
    return {nullptr, kReason, false};
}

DeviceCaptureProbe probe_device_capture() {
    return {false, false, kReason};
}
}  // namespace pipescope
