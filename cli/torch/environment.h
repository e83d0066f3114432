#pragma once

#include <c10/core/Device.h>

#include <string>

namespace pipescope {
/// The environment of a run, for PIPESCOPE_RUN 'environment': versions, compiler, cores, threads, CPU.
std::string environment_json();

/// The device that a flag names. Throws UsageError that lists the devices if this process cannot compute on it.
c10::Device device_of_flag(const std::string& name);
}  // namespace pipescope
