#pragma once

#include <string>

namespace pipescope {
struct DevicePlugin;

/// How tensors go between accelerators of different processes (GPipeOptions::device_messages).
///     host   through the host's memory
///     auto   by NCCL where both ends can, otherwise through the host's memory
///     nccl   by NCCL
///     a path by that plugin library (device_plugin.h); has a '/'
/// Throws UsageError for anything else.
void check_device_messages(const std::string& way);

/// Loads the plugin library of "nccl", "auto" or a path; it stays loaded. NCCL's needs libtorch_cuda.so, so ask for it
/// only if there is a CUDA device. Throws EngineError that says what is missing.
/// Threading: from any thread.
const DevicePlugin& device_plugin(const std::string& way);
}  // namespace pipescope
