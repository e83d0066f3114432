#include "simulator/memory/reserved_memory.h"

#include <algorithm>

namespace pipescope {
ReservedMemory::ReservedMemory(const PipelineOptions& options, int lanes, bool is_on)
    : lanes_(static_cast<std::size_t>(lanes)) {
    for (int lane = 0; is_on && lane < lanes; ++lane) {
        if (const std::string device = device_of(options.hardware, LaneId{lane}); device != "cpu") {
            const CachingAllocatorOptions settings{.expandable_segments = options.hardware.expandable_segments};
            lanes_[static_cast<std::size_t>(lane)].allocator = &devices_.try_emplace(device, settings).first->second;
        }
    }
}

DeviceBlock ReservedMemory::take(LaneId lane, Bytes bytes) {
    Lane& here = lanes_[lane.index()];
    if (here.allocator == nullptr || bytes <= 0) {
        return {};
    }
    const DeviceBlock block{here.allocator, here.allocator->allocate(bytes, lane.value())};
    here.peak = std::max(here.peak, reserved(lane));
    return block;
}

void ReservedMemory::free(DeviceBlock& block) {
    if (!block.is_none()) {
        block.allocator->free(block.number);
        block = {};
    }
}

Bytes ReservedMemory::reserved(LaneId lane) const {
    const CachingAllocator* const allocator = lanes_[lane.index()].allocator;
    return allocator == nullptr ? 0 : allocator->reserved(lane.value());
}
}  // namespace pipescope
