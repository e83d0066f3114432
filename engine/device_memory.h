#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace pipescope {
/// State of an accelerator's allocator, in bytes. If a lane has the device to itself, these are the lane's figures.
struct DeviceMemory {
    std::int64_t allocated = 0;       ///< by tensors, now
    std::int64_t allocated_peak = 0;  ///< highest since reset_device_peaks()
    std::int64_t reserved = 0;        ///< taken from the device, now
    std::int64_t reserved_peak = 0;
    std::int64_t free = 0;   ///< on the whole device, considering other processes; 0 if unknown
    std::int64_t total = 0;  ///< on the whole device; 0 if unknown
};

/// Empty for the CPU, whose allocator counts nothing, and for an accelerator without statistics. Any thread.
std::optional<DeviceMemory> device_memory(c10::Device device);
/// No effect if device_memory() is empty.
void reset_device_peaks(c10::Device device);
}  // namespace pipescope
