#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace pipescope {
/// What an accelerator's allocator holds, in bytes. Where a lane has the device to itself, these are the lane's.
struct DeviceMemory {
    std::int64_t allocated = 0;       ///< by tensors, now
    std::int64_t allocated_peak = 0;  ///< highest since reset_device_peaks()
    std::int64_t reserved = 0;        ///< taken from the device, now
    std::int64_t reserved_peak = 0;
    std::int64_t free = 0;   ///< of the whole device, other processes counted; 0 where unknown
    std::int64_t total = 0;  ///< of the whole device; 0 where unknown
};

/// None for the CPU, whose allocator counts nothing, and for an accelerator without statistics. Any thread.
std::optional<DeviceMemory> device_memory(c10::Device device);
/// Nothing where device_memory() gives nothing.
void reset_device_peaks(c10::Device device);
}  // namespace pipescope
