#pragma once

#include "profiler/recorder/range_event.h"

#include <cstddef>

namespace pipescope {
/// Memory for a ring, taken from the system page by page as the ring is filled for the first time: a thread that emits
/// little costs little, however large its ring. The heap would not do: it rounds up to huge pages, so that each of a
/// program's ten thousand threads takes 2 MB at its first range, and the program its time to clear them.
class RingMemory {
public:
    /// Throws std::bad_alloc.
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
