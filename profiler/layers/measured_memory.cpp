#include "profiler/layers/measured_memory.h"

#include "base/error.h"
#include "profiler/memory/tracking_allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace pipescope {
namespace {
using tracking_allocator::kMeasuredOwner;

bool is_tracked(c10::Device device) {
    return device.is_cpu() || device.is_meta();
}

c10::DeviceAllocator& allocator_of(c10::Device device) {
    auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    if (allocator == nullptr) {
        throw Error("the memory of device \"" + device.str() +
                    "\" cannot be measured; its allocator keeps no statistics; profile on cpu, or with --device meta");
    }
    return *allocator;
}

c10::CachingAllocator::Stat bytes_on(c10::Device device) {
    const auto stats = allocator_of(device).getDeviceStats(device.index());
    const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const c10::CachingAllocator::Stat& asked_for = stats.requested_bytes[all];
    return asked_for.allocated > 0 ? asked_for : stats.allocated_bytes[all];
}
}  // namespace

MeasuredMemory::MeasuredMemory(c10::Device device)
    : device_(device), owner_before_(tracking_allocator::set_owner(kMeasuredOwner)) {
    if (!is_tracked(device_)) {
        allocator_of(device_);  // reports immediately if statistics are missing
    }
}

MeasuredMemory::~MeasuredMemory() {
    tracking_allocator::set_owner(owner_before_);
}

Bytes MeasuredMemory::held() const {
    return is_tracked(device_) ? tracking_allocator::allocated(kMeasuredOwner) : bytes_on(device_).current;
}

Bytes MeasuredMemory::peak() const {
    return is_tracked(device_) ? tracking_allocator::peak(kMeasuredOwner) : bytes_on(device_).peak;
}

void MeasuredMemory::reset_peak() const {
    if (is_tracked(device_)) {
        tracking_allocator::reset_peak(kMeasuredOwner);
    } else {
        allocator_of(device_).resetPeakStats(device_.index());
    }
}
}  // namespace pipescope
