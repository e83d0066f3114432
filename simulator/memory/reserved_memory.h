#pragma once

#include "simulator/memory/caching_allocator.h"
#include "simulator/pipeline_options.h"

#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// A block of one device's allocator; may be empty.
struct DeviceBlock {
    CachingAllocator* allocator = nullptr;
    CachingAllocator::Block number = 0;

    bool is_none() const { return allocator == nullptr; }
};

/// The caching allocators of the accelerators: one per device, with one stream per lane. The host has none.
/// memory_model.h says when storages are allocated and freed. Simplified: a task's own allocations and frees happen
/// when it starts, in the order of its tape; a received tensor is one block on the receiver's stream. Threading: one
/// thread.
class ReservedMemory {
public:
    /// `is_on` false: no lane has an allocator.
    ReservedMemory(const PipelineOptions& options, int lanes, bool is_on);
    ReservedMemory(const ReservedMemory&) = delete;
    ReservedMemory& operator=(const ReservedMemory&) = delete;

    bool has(LaneId lane) const { return lanes_[lane.index()].allocator != nullptr; }
    /// Returns an empty block if the lane has no allocator, or for 0 bytes.
    DeviceBlock take(LaneId lane, Bytes bytes);
    /// Frees the block and empties it. An empty block is ignored.
    void free(DeviceBlock& block);

    /// Current and peak bytes of the lane's stream; 0 on the host.
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
