#pragma once

#include "profiler/recorder/range_event.h"

#include <cstddef>

namespace pipescope {
/// Memory for a ring. The system provides it page by page as the ring is first filled, so a thread that emits little
/// costs little, even with a large ring. The heap is unsuitable because it rounds up to huge pages: each of ten
/// thousand threads would take 2 MB at its first range, and the time to clear it.
class RingMemory {
public:
    /// Throws std::bad_alloc if there is no memory.
    explicit RingMemory(std::size_t entries);
    ~RingMemory();
    RingMemory(const RingMemory&) = delete;
    RingMemory& operator=(const RingMemory&) = delete;

    RangeEvent& operator[](std::size_t k) const { return events_[k]; }

private:
    std::size_t bytes_ = 0;
    RangeEvent* events_ = nullptr;
};
}  // namespace pipescope
