#include "engine/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace pipescope {
namespace {
c10::DeviceAllocator* allocator_of(c10::Device device) {
    if (device.is_cpu()) {
        return nullptr;
    }
    auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}
}  // namespace

std::optional<DeviceMemory> device_memory(c10::Device device) {
    c10::DeviceAllocator* const allocator = allocator_of(device);
    if (allocator == nullptr) {
        return std::nullopt;
    }
    const auto stats = allocator->getDeviceStats(device.index());
    const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    DeviceMemory memory{.allocated = stats.allocated_bytes[all].current,
                        .allocated_peak = stats.allocated_bytes[all].peak,
                        .reserved = stats.reserved_bytes[all].current,
                        .reserved_peak = stats.reserved_bytes[all].peak};
    try {
        const auto [free, total] = allocator->getMemoryInfo(device.index());
        memory.free = static_cast<std::int64_t>(free);
        memory.total = static_cast<std::int64_t>(total);
    } catch (const c10::NotImplementedError&) {
        // Some accelerators have no statistics.
    }
    return memory;
}

void reset_device_peaks(c10::Device device) {
    if (c10::DeviceAllocator* const allocator = allocator_of(device)) {
        allocator->resetPeakStats(device.index());
    }
}
}  // namespace pipescope
