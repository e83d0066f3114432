#pragma once

#include "simulator/caching_allocator.h"
#include "simulator/pipeline_options.h"

#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// A block of one device's allocator, or none.
struct DeviceBlock {
    CachingAllocator* allocator = nullptr;
    CachingAllocator::Block number = 0;

    bool is_none() const { return allocator == nullptr; }
};

/// The caching allocators of the accelerators, one for each device with a stream for each lane. The host has none.
/// memory_model.h says what is taken and freed when. Simplified: what a task takes and frees while it runs happens when
/// it starts, in the order of its tape; a received tensor is one block on the receiver's stream. Threading: one thread.
class ReservedMemory {
public:
    /// `is_on` false: no lane has an allocator.
    ReservedMemory(const PipelineOptions& options, int lanes, bool is_on);
    ReservedMemory(const ReservedMemory&) = delete;
    ReservedMemory& operator=(const ReservedMemory&) = delete;

    bool has(LaneId lane) const { return lanes_[lane.index()].allocator != nullptr; }
    /// None without an allocator, and for no bytes.
    DeviceBlock take(LaneId lane, Bytes bytes);
    /// The block is none afterwards. Of none: nothing happens.
    void free(DeviceBlock& block);

    /// Bytes that the lane's stream has now, and the most so far; 0 on the host.
    Bytes reserved(LaneId lane) const;
    Bytes peak(LaneId lane) const { return lanes_[lane.index()].peak; }

private:
    struct Lane {
        CachingAllocator* allocator = nullptr;
        Bytes peak = 0;
    };
    std::map<std::string, CachingAllocator> devices_;
    std::vector<Lane> lanes_;
};
}  // namespace pipescope
